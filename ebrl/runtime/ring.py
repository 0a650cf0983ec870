"""What one worker did and when: a ring of fixed records in a mapped file, the last of them kept.

Invariants: a record is whole before the count says that it is there, so whoever dies leaves
everything up to then; the file has its blocks before the first record, so that a full disk is an
error at start and no SIGBUS in the middle; a record costs no system call and nothing that grows. A
worker that keeps no ring pays one comparison a firing.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = "trace"  # in a run directory
HEAD_BYTES = 64  # a cache line: the count, and nothing else
COUNT, RECORD = struct.Struct("q"), struct.Struct("qqqq")  # native: a word is written at once
BEGIN_NS, END_NS, ITEMS, VERSION = range(4)


def path_of(run_dir: Path, worker: str) -> Path:
    """ "simulate 0" → trace/simulate-0.ring"""
    return run_dir / FOLDER / f"{worker.replace(' ', '-')}.ring"


class Ring:
    """The writing end. Whoever takes over a dead worker's post goes on in its ring."""

    def __init__(self, path: Path, records: int, version: NDArray[Any]) -> None:
        """`version`: where the newest weights' number is. OSError where there is no room."""
        size = HEAD_BYTES + records * RECORD.size
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(fd, 0, size)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._records = records
        self._version = version.data
        (self._count,) = COUNT.unpack_from(self._map)

    def add(self, begin_ns: int, end_ns: int, items: int) -> None:
        """One firing, by the monotonic clock."""
        count = self._count
        RECORD.pack_into(
            self._map,
            HEAD_BYTES + count % self._records * RECORD.size,
            begin_ns,
            end_ns,
            items,
            self._version[0],
        )
        self._count = count + 1
        COUNT.pack_into(self._map, 0, count + 1)


def join(
    run_dir: Path, worker: str, records: int, version: NDArray[Any], warn: Callable[[str], None]
) -> Ring | None:
    """This worker's ring; None where it keeps no records, or there is no room for them."""
    if records == 0:
        return None
    try:
        return Ring(path_of(run_dir, worker), records, version)
    except OSError as error:
        warn(f"`{worker}` will be missing from the trace: {error}")
        return None


def read(path: Path) -> tuple[NDArray[np.int64], bool]:
    """Records [n, 4] (columns above) in order of writing, and whether older ones were dropped."""
    data = path.read_bytes()
    whole = (len(data) - HEAD_BYTES) // RECORD.size
    if whole <= 0:  # its worker died as it made it
        return np.empty((0, 4), np.int64), False
    (count,) = COUNT.unpack_from(data)
    rows = np.frombuffer(data, np.int64, 4 * whole, HEAD_BYTES).reshape(-1, 4)
    if count < len(rows):
        return rows[:count], False
    # The oldest is where the next would be: half overwritten, if its worker died at that.
    return np.roll(rows, -(count % len(rows)), axis=0)[1:], True
