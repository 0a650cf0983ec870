"""Where the run hears its workers: one pipe each, read as their messages come.

Invariant: a message is heard once, in the order of its sender; what a worker told before it died is
heard before it is buried.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable

from ebrl.runtime import processes
from ebrl.runtime.messages import Message
from ebrl.runtime.processes import Child


class Desk:
    """`hear(child, message)` is called for each message."""

    def __init__(self, hear: Callable[[Child, Message], None]) -> None:
        self._hear = hear
        self._selector = selectors.DefaultSelector()

    def open(self, child: Child) -> None:
        self._selector.register(child.inbox.fd, selectors.EVENT_READ, child)

    def read(self, timeout_s: float) -> None:
        """Hear what has come, waiting at most so long for the first of it."""
        for key, _ in self._selector.select(timeout_s):
            child: Child = key.data
            messages, alive = child.inbox.receive()
            for message in messages:
                self._hear(child, message)
            if not alive:
                self._disconnect(child)

    def bury(self, child: Child) -> None:
        """Hear its last words, close its pipe, end what it left behind."""
        if child.inbox.closed:
            return
        messages, _ = child.inbox.receive()
        for message in messages:
            self._hear(child, message)
        if child.connected:
            self._disconnect(child)
        child.inbox.close()
        if child.process is not None:
            processes.reap_orphans(child.process)

    def close(self) -> None:
        self._selector.close()

    def _disconnect(self, child: Child) -> None:
        self._selector.unregister(child.inbox.fd)
        child.connected = False
