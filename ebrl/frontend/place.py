"""Where the user wrote it: the `file:line` that a diagnostic points at.

Invariant: a place is a line of the user's own code, never one of this package, and it reads as the
user would type it (relative to the working directory where the file is below it).
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from ebrl.errors import Diagnostic

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


def is_ours(filename: str) -> bool:
    """Does this source file belong to the package?"""
    return filename.startswith(_PACKAGE)


def display(path: str | Path) -> str:
    """The path as short as it can be opened from here."""
    absolute = os.path.abspath(path)
    below = os.path.join(os.getcwd(), "")
    return absolute.removeprefix(below)


def here() -> str:
    """`file:line` of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while _runs_ours(frame) and frame.f_back is not None:
        frame = frame.f_back
    return f"{display(frame.f_code.co_filename)}:{frame.f_lineno}"


def _runs_ours(frame: FrameType) -> bool:
    """By module, since methods that Python writes for us (of dataclasses) have no file."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "ebrl"


def short(where: str) -> str:
    """The place without its folders: what a plan keeps, equal on every machine."""
    return os.path.basename(where)


def in_reading_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sorted by file, then line; equal ones once."""

    def key(diagnostic: Diagnostic) -> tuple[str, int, str, str]:
        file, _, line = diagnostic.where.rpartition(":")
        number = int(line) if line.isdigit() else 0
        return file, number, diagnostic.code, diagnostic.message

    return tuple(sorted(dict.fromkeys(diagnostics), key=key))


def meant(word: str, words: Iterable[str]) -> str | None:
    """The one of `words` that was probably meant: spelt alike, or one begins the other."""
    lower = {each.lower(): each for each in words}
    asked = word.lower()
    close = difflib.get_close_matches(asked, list(lower), n=1, cutoff=0.5)
    begun = [each for each in lower if asked and (asked.startswith(each) or each.startswith(asked))]
    return next((lower[each] for each in (*begun, *close)), None)


def near(word: str, words: Iterable[str]) -> str:
    """A hint: the one of `words` that was probably meant, or all of them where none is near."""
    known = list(words)
    if (close := meant(word, known)) is not None:
        return f"did you mean {close!r}?"
    return f"known: {listed(known)}" if known else "there is none"


def listed(words: Iterable[object], last: str = "and") -> str:
    """`a, b and c`."""
    texts = [str(word) for word in words]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"
