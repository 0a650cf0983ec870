"""Where a learner leaves its state after each update, so that its death costs nothing.

Two anonymous files belong to the run; the learner writes them in turn. Invariant: an entry is valid
from the moment its head is written, after everything else of it, so whenever the learner dies one
whole entry is there, of the published version or an older one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import msgspec

from ebrl.errors import RunError
from ebrl.runtime.checkpoint import State

Fds = tuple[int, int, int]
HEAD = struct.Struct("<qqq")  # version, bytes of the state, bytes of the tensors; version -1: none
NOTHING = HEAD.pack(-1, 0, 0)


def create() -> Fds:
    """The two files, and one by which several learners find each other, as descriptors."""
    first, second, meeting = (
        os.memfd_create(f"ebrl-learner-{n}", os.MFD_CLOEXEC) for n in range(3)
    )
    return first, second, meeting


class Memory:
    """Both files, seen from the learner (which writes) or from the run (which may have to)."""

    def __init__(self, fds: Fds) -> None:
        self._fds = fds[:2]
        self._turn = 0

    def store(self, tensors: bytes, state: State) -> None:
        """Keep this; OSError where the machine has no memory for it, and then nothing is kept."""
        fd = self._fds[self._turn]
        body = msgspec.json.encode(state)
        os.pwrite(fd, NOTHING, 0)
        os.ftruncate(fd, HEAD.size + len(body) + len(tensors))
        _write(fd, body, HEAD.size)
        _write(fd, tensors, HEAD.size + len(body))
        os.pwrite(fd, HEAD.pack(state.version, len(body), len(tensors)), 0)
        self._turn = 1 - self._turn

    def newest(self, version: int) -> tuple[bytes, State] | None:
        """The newest entry that is not newer than `version`, and continue beside it."""
        found = sorted(self._entries(), reverse=True)
        for entry, turn, size, length in found:
            if entry > version:
                continue
            self._turn = 1 - turn
            fd = self._fds[turn]
            state = msgspec.json.decode(_read(fd, size, HEAD.size), type=State)
            return _read(fd, length, HEAD.size + size), state
        return None

    def _entries(self) -> Iterator[tuple[int, int, int, int]]:
        for turn, fd in enumerate(self._fds):
            head = os.pread(fd, HEAD.size, 0)
            if len(head) == HEAD.size:
                version, size, length = HEAD.unpack(head)
                if version >= 0:
                    yield version, turn, size, length


def _write(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done


def _read(fd: int, length: int, at: int) -> bytes:
    parts = []
    while length:
        part = os.pread(fd, length, at)
        if not part:
            raise RunError("learner-memory", "the learner's memory was cut short")
        parts.append(part)
        length, at = length - len(part), at + len(part)
    return b"".join(parts)
