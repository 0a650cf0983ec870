"""Doorbells: how a worker sleeps until another has something for it.

Invariant: a ring is never lost. The counter of an eventfd stays until it is read, so a worker that
looks, finds nothing and then waits cannot miss what was published in between. One ring a batch: a
wake-up costs about 30 µs of the machine, a byte in shared memory nothing.
"""

from __future__ import annotations

import os
import select


class Bell:
    """One worker's doorbell."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) if fd is None else fd
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)

    def ring(self) -> None:
        os.eventfd_write(self.fd, 1)

    def wait(self, timeout_s: float) -> bool:
        """Sleep until rung or until the time is over; says whether it was rung."""
        if not self._poll.poll(timeout_s * 1000):
            return False
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:  # somebody else read it first
            return False
        return True

    def close(self) -> None:
        os.close(self.fd)
