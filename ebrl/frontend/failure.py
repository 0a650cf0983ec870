"""An exception out of the user's code, told as the user's fault: their line, their frames, none of
ours.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from pathlib import Path

from ebrl.errors import Diagnostic, EbrlError, GraphError
from ebrl.frontend import graph as declaration_graph
from ebrl.frontend.place import display, is_ours, near

_FRAMES = 3


def failure(error: BaseException, *, folder: Path, fallback: str) -> EbrlError:
    """One error that points into `folder`. What already is an EbrlError keeps its words."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(folder) and not is_ours(frame.filename)
    ]
    where = f"{display(frames[-1].filename)}:{frames[-1].lineno}" if frames else fallback
    if isinstance(error, EbrlError):
        placed = [
            Diagnostic(code=d.code, message=d.message, where=d.where or where, hint=d.hint)
            for d in error.diagnostics
        ]
        return type(error).of(placed)
    if isinstance(error, SyntaxError):
        return _syntax(error, fallback)
    shown = "".join(
        f"\n  {display(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in frames[-_FRAMES:]
    )
    text = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, ImportError):
        return GraphError("file-import", text + shown, where=where, hint=_import_hint(error))
    if isinstance(error, SystemExit):
        text = f"the file ends the process (exit code {error.code})"
        return GraphError(
            "file-exits", text + shown, where=where, hint="a graph file only declares"
        )
    return GraphError("file-error", text + shown, where=where, hint=_hint(error))


def _syntax(error: SyntaxError, fallback: str) -> EbrlError:
    file = display(error.filename) if error.filename else fallback
    line = (error.text or "").rstrip()
    caret = ""
    if line and error.offset:
        caret = f"\n  {line}\n  {' ' * (error.offset - 1)}^"
    where = f"{file}:{error.lineno}" if error.lineno else file
    return GraphError("file-syntax", f"{error.msg}{caret}", where=where)


def _import_hint(error: ImportError) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install {error.name.partition('.')[0]!r}, or put it beside the graph file"
    module = error.name or ""
    try:
        names = [name for name in vars(sys.modules[module]) if not name.startswith("_")]
    except KeyError:
        return ""
    wanted = str(error).partition("cannot import name '")[2].partition("'")[0]
    return near(wanted, names) if wanted and len(names) < 200 else ""


def _hint(error: BaseException) -> str:
    """Near misses that Python itself would have shown."""
    if isinstance(error, AttributeError) and error.name:
        return _close(error.name, [n for n in dir(error.obj) if not n.startswith("_")])
    if isinstance(error, TypeError):
        text = str(error)
        if "'End'" in text or "'Node'" in text:
            return "an edge is written a.out >> b.inp"
        return _of_call(text, error)
    if isinstance(error, NameError) and error.name and error.__traceback__ is not None:
        frame = list(traceback.walk_tb(error.__traceback__))[-1][0]
        return _close(error.name, [*frame.f_locals, *frame.f_globals])
    return ""


def _of_call(text: str, error: BaseException) -> str:
    """For a keyword that a call does not take: the one that it does."""
    match = re.search(r"^([\w.]+)\(\) got an unexpected keyword argument '(\w+)'", text)
    if match is None or error.__traceback__ is None:
        return ""
    name, keyword = match.groups()
    frame = list(traceback.walk_tb(error.__traceback__))[-1][0]
    scope = {**vars(declaration_graph), **frame.f_globals, **frame.f_locals}
    first, *rest = name.split(".")
    called = scope.get(first)
    for each in rest:
        called = getattr(called, each, None)
    try:
        return (
            _close(keyword, list(inspect.signature(called).parameters)) if callable(called) else ""
        )
    except (TypeError, ValueError):
        return ""


def _close(word: str, words: list[str]) -> str:
    hint = near(word, words)
    return hint if hint.startswith("did you mean") else ""
