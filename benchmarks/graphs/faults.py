"""Faults on demand: a stage asks, before it works, whether it is to go wrong now, and how.

A file of one byte for each place is mapped into every process; whoever reads a fault there takes it
away and commits it. Nothing is asked where no such file is named, so a stage costs the same.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from pathlib import Path

PLACE = "EBRL_FAULTS"
PLACES = ("step", "reset", "policy", "learner")
FAULTS = ("raise", "nan", "shape", "exit", "leave", "hang", "grow")
GROWTH = 700 << 20  # bytes


class Faults:
    """One place of the file; `due()` is the fault to commit now, or an empty string."""

    def __init__(self, place: str) -> None:
        path = os.environ.get(PLACE)
        self._at = PLACES.index(place)
        self._bytes: mmap.mmap | bytearray = bytearray(len(PLACES))
        if path:
            with open(path, "r+b") as file:
                self._bytes = mmap.mmap(file.fileno(), len(PLACES))

    def due(self) -> str:
        code = self._bytes[self._at]
        if not code:
            return ""
        self._bytes[self._at] = 0
        return FAULTS[code - 1]


def commit(fault: str) -> None:
    """What any stage can do wrong; NaN and shapes are the stage's own to get wrong."""
    if fault == "raise":
        raise RuntimeError("a fault was asked for")
    if fault == "exit":
        os._exit(0)
    if fault == "leave":
        sys.exit(0)
    if fault == "hang":
        while True:
            time.sleep(1.0)
    if fault == "grow":
        leak.append(bytearray(os.urandom(1 << 20)) * (GROWTH >> 20))


leak: list[bytearray] = []


def ask(path: Path, place: str, fault: str) -> None:
    """Have the next one at `place` commit `fault`; an empty one takes it back."""
    with path.open("r+b") as file:
        file.seek(PLACES.index(place))
        file.write(bytes([FAULTS.index(fault) + 1 if fault else 0]))


def pending(path: Path, place: str) -> bool:
    return path.read_bytes()[PLACES.index(place)] != 0
