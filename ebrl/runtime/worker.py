"""A worker process: `python -m ebrl.runtime.worker`, with its `Boot` on standard input.

Invariants: affinity and thread counts are set before torch is imported; the process dies with the
run that started it; whatever goes wrong, in any thread, is told to the run before the process ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import msgspec
import setproctitle

from ebrl.errors import Diagnostic, EbrlError, RunError
from ebrl.planner.plan import Program
from ebrl.runtime.bell import Bell
from ebrl.runtime.boot import Boot, load_stage
from ebrl.runtime.messages import Failed, Message, send
from ebrl.runtime.segments import Segments
from ebrl.runtime.slab import Slab

if TYPE_CHECKING:
    pass

TELL_EVERY_S = 0.2
IDLE_S = 0.5
PR_SET_PDEATHSIG = 1
STOP_DONE = 1


class Worker:
    """What every role has: the slab, the bells, the pipe to the run, and its own clock."""

    def __init__(self, boot: Boot) -> None:
        self.boot = boot
        self.program = msgspec.json.decode(boot.program, type=Program)
        self.slab = Slab(boot.slab_fd, boot.layout)
        self.segments = Segments(
            self.slab,
            per_batch=boot.per_batch,
            max_staleness=boot.max_staleness,
            worker=boot.worker,
        )
        self.bell = Bell(boot.bells[boot.name])
        self._bells = {name: Bell(fd) for name, fd in boot.bells.items() if name != boot.name}
        self._clock = self.slab["clock"][boot.worker]
        self._stop = self.slab["stop"]

    def stopping(self) -> bool:
        return bool(self._stop[0])

    def tell(self, message: Message) -> None:
        send(self.boot.pipe_fd, message)

    def stage(self, name: str) -> Any:
        """The user's stage object, from the graph file that the plan was made of."""
        return load_stage(self.boot.graph, self.boot.graph_sha256, name)

    def bells_of(self, role: str) -> list[Bell]:
        return [bell for name, bell in self._bells.items() if name.split()[0] == role]

    def count(self, busy_ns: int, items: int) -> None:
        """One firing on this worker's clock."""
        self._clock[0] += busy_ns
        self._clock[1] += 1
        self._clock[2] += items

    def beat(self) -> None:
        self._clock[3] = time.monotonic_ns()

    def stop_all(self) -> None:
        """The work is done: tell everybody."""
        self._stop[0] = STOP_DONE
        for bell in self._bells.values():
            bell.ring()


def main() -> None:
    """Run one worker to its end; exit 0 when it was asked to stop."""
    boot = msgspec.json.decode(sys.stdin.buffer.read(), type=Boot)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # the run died before we asked to die with it
        sys.exit(1)
    setproctitle.setproctitle(f"ebrl {boot.name}")
    for fd in (boot.slab_fd, boot.pipe_fd, *boot.bells.values()):
        os.set_inheritable(fd, False)  # not for what the user's simulator starts
    if boot.core_set:
        os.sched_setaffinity(0, boot.core_set)
    worker = Worker(boot)

    def thread_died(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            _fail(worker, args.exc_value)
            os._exit(1)

    threading.excepthook = thread_died
    from ebrl.runtime import roles  # after the affinity: it may bring torch along

    try:
        roles.ROLES[boot.role](worker)
    except BaseException as error:
        _fail(worker, error)
        sys.exit(1)


def _fail(worker: Worker, error: BaseException) -> None:
    if isinstance(error, EbrlError):
        diagnostics = error.diagnostics
    else:
        last = traceback.extract_tb(error.__traceback__)[-1:]
        where = f"{last[0].filename}:{last[0].lineno}" if last else ""
        message = f"{type(error).__name__} in `{worker.boot.name}`: {error}"
        diagnostics = (Diagnostic(code="worker-raised", message=message, where=where),)
    text = "".join(traceback.format_exception(error))
    print(text, file=sys.stderr, flush=True)
    worker.tell(Failed(diagnostics=diagnostics, traceback=text))


if __name__ == "__main__":
    try:
        main()
    except RunError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
