"""What workers tell the run: typed messages over one pipe a worker. The hot path sends none.

Invariant: one writer a pipe, and each message is framed by its length, so a reader never sees half
of one; a worker that dies in the middle of a message loses that message only.
"""

from __future__ import annotations

import os

import msgspec

from ebrl.errors import Diagnostic


class Born(msgspec.Struct, frozen=True, tag="born"):
    """The process is there."""

    pid: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Built and about to work."""


class Episodes(msgspec.Struct, frozen=True, tag="episodes"):
    """Finished episodes: (environment, return, length in steps, success or None)."""

    rows: list[tuple[int, float, int, bool | None]]


class Updated(msgspec.Struct, frozen=True, kw_only=True, tag="updated"):
    """One update of the learner, and the environment steps trained on so far."""

    version: int
    trained: int
    env_steps: int
    seconds: float
    staleness_mean: float
    staleness_max: int
    metrics: dict[str, float]


class Saved(msgspec.Struct, frozen=True, tag="saved"):
    """A checkpoint is on disk."""

    path: str
    weights_sha256: str


class EnvironmentFailed(msgspec.Struct, frozen=True, kw_only=True, tag="environment failed"):
    """One environment raised, or gave what must not pass; it is built anew, the others go on."""

    environment: int
    message: str
    where: str
    steps: int  # thrown away with it


class Skipped(msgspec.Struct, frozen=True, kw_only=True, tag="skipped"):
    """An update made something non-finite and is left out, with the steps it was made from."""

    version: int  # from which it was tried
    env_steps: int
    message: str
    lost: int = 0  # steps trained on before, that went with the state that was not kept


class Warned(msgspec.Struct, frozen=True, tag="warned"):
    """Something is wrong that the run can bear."""

    message: str


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The worker cannot go on. `final`: the user's mistake, which starting again does not mend."""

    diagnostics: tuple[Diagnostic, ...]
    traceback: str
    final: bool


Message = Born | Ready | Episodes | Updated | Saved | EnvironmentFailed | Skipped | Warned | Failed

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Message)


def send(fd: int, message: Message) -> None:
    """Write one message, whole."""
    body = _ENCODER.encode(message)
    data = memoryview(len(body).to_bytes(4, "little") + body)
    while data:
        data = data[os.write(fd, data) :]


class Inbox:
    """The reading end of one worker's pipe."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.closed = False
        self._buffer = bytearray()
        os.set_blocking(fd, False)

    def receive(self) -> tuple[list[Message], bool]:
        """Messages that have arrived, and whether the writer is still there."""
        alive = True
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                alive = False
                break
            self._buffer += data
        found: list[Message] = []
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "little")
            if len(self._buffer) < end:
                break
            found.append(_DECODER.decode(bytes(self._buffer[4:end])))
            del self._buffer[:end]
        return found, alive

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            os.close(self.fd)
