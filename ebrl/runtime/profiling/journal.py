"""Slices as they come, on disk: a profiling that was interrupted goes on where it was.

Invariant: a line is written whole or, after a crash, is the last one and not read; lines of another
program or machine are never mixed in, for the first line says what the others are about.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from ebrl.errors import PlanError


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One slice: where, in whose company, and what was measured."""

    company: tuple[str, ...]
    stage: str
    sms: int
    cores: int
    batch: int
    seconds: tuple[float, ...]
    bytes: int = 0
    device_bytes: int = 0


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What the entries are about."""

    key: str


class Journal:
    """The file beside the profile. `fresh`: what is there is thrown away."""

    def __init__(self, path: Path, key: str, *, fresh: bool = False) -> None:
        self.path = path
        self.found: list[Entry] = []
        if not fresh:
            self.found = list(_read(path, key))
        try:
            self._file: BinaryIO = path.open("wb", buffering=0)
        except OSError as error:
            raise PlanError(
                "profile-unwritable",
                f"cannot keep what is measured: {error.strerror}",
                where=str(path),
                hint="name another file with -o",
            ) from error
        self._line(Head(key=key))
        for entry in self.found:
            self._line(entry)

    def add(self, entry: Entry) -> None:
        self._line(entry)

    def close(self, *, done: bool) -> None:
        """`done`: the profile has been written, so nothing is left to go on with."""
        self._file.close()
        if done:
            self.path.unlink(missing_ok=True)

    def _line(self, what: msgspec.Struct) -> None:
        self._file.write(msgspec.json.encode(what) + b"\n")


def _read(path: Path, key: str) -> Iterator[Entry]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    try:
        if not lines or msgspec.json.decode(lines[0], type=Head).key != key:
            return
        for line in lines[1:]:
            yield msgspec.json.decode(line, type=Entry)
    except msgspec.DecodeError:  # cut short: what came before it counts
        return
