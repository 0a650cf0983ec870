"""A worker process: a fork of the nursery, or `python -m ebrl.runtime.worker` with its `Boot` on
standard input.

Invariants: affinity and thread counts are set before torch makes a thread; the process dies with
the run that started it; whatever goes wrong, in any thread, is told to the run before the process
ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

import msgspec
import numpy as np
import setproctitle

from ebrl.errors import Diagnostic, EbrlError, RunError
from ebrl.planner.layout import (
    CLOCK_BEAT,
    CLOCK_BUSY,
    CLOCK_FIRINGS,
    CLOCK_ITEMS,
    CLOCK_RETIRE,
    WORK_COUNT,
    WORK_NS,
    WORK_RING,
)
from ebrl.planner.plan import Program
from ebrl.runtime import ring
from ebrl.runtime.bell import Bell
from ebrl.runtime.boot import OWNER, Boot, load_stage
from ebrl.runtime.emulation.cue import Cue
from ebrl.runtime.emulation.recue import read_cue
from ebrl.runtime.messages import Born, Failed, Message, Warned, send
from ebrl.runtime.segments import Segments
from ebrl.runtime.slab import Slab
from ebrl.runtime.threads import set_threads
from ebrl.runtime.watch.control import Orders, Settings

PR_SET_PDEATHSIG = 1
STOP_DONE = 1


class Worker:
    """What every role has: the slab, the bells, the pipe to the run, and its own clock."""

    def __init__(self, boot: Boot, stages: dict[str, Any]) -> None:
        self.boot = boot
        self._stages = stages
        self._emulated: Any = None
        self._pace: Any = None  # of an emulated stage
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
        self._work = self.slab["work"][boot.worker]
        self._ring = self.slab["work/ring"][boot.worker]
        self._firings = int(self._work[WORK_COUNT])
        self._cpu_ns = 0  # of this process, when it last counted
        # Else on a device, or asleep: its work is the time that it takes.
        self.works_on_cores = boot.device == "cpu"
        self.orders = Orders(self.slab, boot.worker)
        self._trace = ring.join(
            Path(boot.run_dir),
            boot.name,
            boot.trace_records,
            self.slab["weights/version"],
            warn=lambda text: self.tell(Warned(text)),
        )

    def stopping(self) -> bool:
        """The run ends, or this worker is not needed any more."""
        return bool(self._stop[0] or self._clock[CLOCK_RETIRE])

    def run_stopping(self) -> bool:
        return bool(self._stop[0])

    def tell(self, message: Message) -> None:
        send(self.boot.pipe_fd, message)

    def stage(self, name: str) -> Any:
        """The user's stage object, from the graph file of the plan; or what stands in for it."""
        if self.boot.emulation is not None:
            return self._stand_in(self.boot.emulation)
        loaded = self._stages.get(name)
        return (
            loaded
            if loaded is not None
            else load_stage(self.boot.graph, self.boot.graph_sha256, name)
        )

    def _stand_in(self, cue: Cue) -> Any:
        from ebrl.runtime.emulation.pace import Pace
        from ebrl.runtime.emulation.stages import EmulatedStage

        self.works_on_cores = False
        if self._emulated is None:
            # Who is retired goes on at the plan's pace until nothing is in its hands.
            self._pace = Pace(cue, self.slab, stopping=self.run_stopping, beat=self.beat)
            self._emulated = EmulatedStage(self.program, self._pace, cue)
            self._pace.birth()
        return self._emulated

    def news(self) -> Settings | None:
        """What this worker is told while it runs, or None; an emulated one finds its times anew."""
        told = self.orders.news()
        if told is not None and self._pace is not None:
            cue = read_cue(self.boot.run_dir, self.boot.name)
            if cue is not None:
                self._pace.adopt(cue)
        return told

    def use_threads(self, count: int) -> None:
        """Of torch, which an emulated stage does without."""
        if self.boot.emulation is None:
            set_threads(count)

    def bells_of(self, role: str) -> list[Bell]:
        return [bell for name, bell in self._bells.items() if name.split()[0] == role]

    def count(self, busy_ns: int, items: int) -> None:
        """One firing on this worker's clock, with the work since the last one.

        That is CPU time, looking for work included: what it costs the cores.
        """
        self._clock[CLOCK_BUSY] += busy_ns
        self._clock[CLOCK_FIRINGS] += 1
        self._clock[CLOCK_ITEMS] += items
        work_ns = busy_ns if self._pace is None else self._pace.spent_ns()
        if self.works_on_cores:
            now = time.process_time_ns()
            work_ns = now - self._cpu_ns if self._cpu_ns else busy_ns
            self._cpu_ns = now
        self._ring[self._firings % WORK_RING] = work_ns, items
        self._firings += 1
        self._work[WORK_NS] += work_ns
        self._work[WORK_COUNT] = self._firings
        if self._trace is not None:
            now = time.monotonic_ns()
            self._trace.add(now - busy_ns, now, items)

    def beat(self) -> None:
        self._clock[CLOCK_BEAT] = time.monotonic_ns()

    def stop_all(self) -> None:
        """The work is done: tell everybody."""
        self._stop[0] = STOP_DONE
        for bell in self._bells.values():
            bell.ring()


def main() -> None:
    """Run one worker to its end, in an interpreter of its own."""
    boot = msgspec.json.decode(sys.stdin.buffer.read(), type=Boot)
    live(boot, {})


def live(boot: Boot, stages: dict[str, Any]) -> None:
    """Run one worker to its end; exit 0 when it was asked to stop. `stages`: those loaded."""
    while os.getppid() != boot.run_pid:  # until whoever forked us twice has gone
        if os.getppid() == 1:  # the run died before we asked to die with it
            sys.exit(1)
        time.sleep(0.0005)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != boot.run_pid:
        sys.exit(1)
    send(boot.pipe_fd, Born(os.getpid()))
    setproctitle.setproctitle(f"ebrl {boot.name}")
    for fd in (boot.slab_fd, boot.pipe_fd, *boot.memory_fds, *boot.bells.values()):
        os.set_inheritable(fd, False)  # not for what the user's simulator starts
    if boot.core_set:
        os.sched_setaffinity(0, boot.core_set)
    os.environ[OWNER] = str(os.getpid())
    for name, value in boot.environment.items():  # read when CUDA comes up
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    for name in ("OMP", "MKL", "OPENBLAS"):  # for what is loaded from now on
        os.environ[f"{name}_NUM_THREADS"] = str(boot.threads)
    sys.stdout, sys.stderr = Steadfast(sys.stdout), Steadfast(sys.stderr)
    _seed_what_is_global(boot)
    worker = Worker(boot, stages)

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


class Steadfast(io.TextIOBase):
    """An output whose disk may be full: what cannot be written is lost, and nobody dies of it."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._output.write(text)
            self._output.flush()
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._output.flush()

    def fileno(self) -> int:
        return self._output.fileno()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False


def _seed_what_is_global(boot: Boot) -> None:
    """No two workers, and no two lives of one, share the generators that libraries keep."""
    key = (0xEB21, boot.worker, boot.life)  # far from the environments' keys
    words = np.random.SeedSequence(boot.seed, spawn_key=key).generate_state(2)
    random.seed(int(words[0]))
    np.random.seed(int(words[0]))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(int(words[1]))


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
    final = isinstance(error, EbrlError)
    worker.tell(Failed(diagnostics=diagnostics, traceback=text, final=final))


if __name__ == "__main__":
    try:
        main()
    except RunError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
