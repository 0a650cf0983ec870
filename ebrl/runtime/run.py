"""A run: the plan's workers started, watched, stopped, and accounted for.

Invariants: whatever ends the run (its work done, a signal, a worker's death, an error of our own)
goes through one `finally`: workers are asked, then killed; descendants are reaped; the ledger is
read when nobody writes to it any more. The run itself imports neither torch nor a simulator.
"""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from ebrl.errors import Diagnostic, RunError
from ebrl.planner.layout import segments_per_batch
from ebrl.planner.plan import Plan, encode
from ebrl.runtime import assign, preflight, processes
from ebrl.runtime.bell import Bell
from ebrl.runtime.ledger import read as read_ledger
from ebrl.runtime.messages import Episodes, Failed, Ready, Saved, Updated
from ebrl.runtime.processes import Child
from ebrl.runtime.progress import Progress
from ebrl.runtime.record import Recorder, memory_bytes
from ebrl.runtime.rundir import PLAN, SUMMARY, RunDirectory
from ebrl.runtime.segments import Segments
from ebrl.runtime.slab import Slab
from ebrl.runtime.summary import Summary, summarise

TICK_S = 0.5
MEMORY_EVERY_S = 5.0
STOP_WITHIN_S = 3.5  # of the five that a signal is promised
WORKERS_WITHIN_S = 1.5  # simulators and policies hold nothing worth waiting for
START_WITHIN_S = 300.0
STOP_DONE, STOP_ASKED, STOP_FAILED = 1, 2, 3


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the user may say about a run beside its plan."""

    steps: int | None = None  # environment steps to train on, then end
    seconds: float | None = None  # or this long after the first environment step
    seed: int = 0
    resume: str | None = None
    checkpoint_every_s: float = 60.0


Watch = Callable[["Run"], None]


class Run:
    """One execution of a plan on this machine."""

    def __init__(
        self,
        plan: Plan,
        *,
        graph: Path,
        graph_sha256: str | None,
        directory: RunDirectory,
        weights_bytes: int,
        options: Options,
    ) -> None:
        preflight.check(plan)
        self.plan = plan
        self.options = options
        self.directory = directory
        self.progress = Progress()
        self._recorder = Recorder(directory.path)
        self._graph = graph
        self._graph_sha256 = graph_sha256
        self._layout = assign.layout_of(plan, weights_bytes)
        self._children: list[Child] = []
        self._failures: list[Diagnostic] = []
        self._signal: int | None = None
        self._ended = "done"
        self._saved: Saved | None = None
        self.memory = 0
        (directory.path / PLAN).write_bytes(encode(plan))

    # -- life ------------------------------------------------------------------------------------

    def execute(self, watch: Watch) -> Summary:
        """Start, go on until the end, stop, account. Raises RunError when a worker failed."""
        processes.become_reaper()
        handlers = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        self.slab = Slab.create(self._layout)
        self.slab["weights/version"][0] = -1
        self.slab["weights/writing"][0] = -1
        self._bells = {name: Bell() for name in assign.worker_names(self.plan)}
        self._selector = selectors.DefaultSelector()
        self.segments = Segments(
            self.slab,
            per_batch=segments_per_batch(self.plan.program),
            max_staleness=self.plan.max_staleness,
        )
        try:
            self._start()
            self._watch(watch)
        finally:
            self._stop()
            ledger = read_ledger(self.slab, self.segments)
            summary = summarise(self, ledger)
            self._close()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        watch(self)
        (self.directory.path / SUMMARY).write_bytes(
            msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"
        )
        if self._failures:
            raise RunError.of(self._failures)
        assert ledger.balance == 0, f"the ledger does not balance: {ledger}"
        return summary

    def _start(self) -> None:
        bells = {name: bell.fd for name, bell in self._bells.items()}
        for boot in assign.boots(
            self.plan,
            self._layout,
            graph=str(self._graph),
            graph_sha256=self._graph_sha256,
            slab_fd=self.slab.fd,
            bells=bells,
            seed=self.options.seed,
            total_steps=self.options.steps,
            run_dir=str(self.directory.path),
            checkpoint_every_s=self.options.checkpoint_every_s,
            resume=self.options.resume,
        ):
            if self._signal is not None:
                return
            child = processes.spawn(boot, self.directory.log(boot.name))
            self._children.append(child)
            self._selector.register(child.inbox.fd, selectors.EVENT_READ, child)

    def _watch(self, watch: Watch) -> None:
        """Read messages until the work is done, somebody died, or we are asked to stop."""
        sampled = shown = 0.0
        while True:
            self._read(TICK_S)
            now = time.monotonic()
            self._look_at_start(now)
            if self._failures or self._signal is not None or self._over(now):
                return
            if now - sampled > MEMORY_EVERY_S:
                sampled = now
                self.memory = max(self.memory, memory_bytes())
            if now - shown > TICK_S:
                shown = now
                watch(self)

    def _over(self, now: float) -> bool:
        if self.slab["stop"][0] == STOP_DONE:
            return True
        limit, began = self.options.seconds, self.progress.first_step_at
        if limit is not None and began is not None and now - began > limit:
            self._ended = "time limit"
            return True
        return False

    def _look_at_start(self, now: float) -> None:
        if self.progress.first_step_at is None:
            firsts = self.slab["produced"][:, 1]
            if firsts.any():
                self.progress.first_step_at = float(firsts[firsts > 0].min()) / 1e9
        waiting = [child.name for child in self._children if not child.ready]
        if waiting and now - self.progress.began > START_WITHIN_S:
            names = ", ".join(waiting)
            self._failures.append(
                Diagnostic(
                    code="start-timeout",
                    message=f"not ready after {START_WITHIN_S:.0f} s: {names}",
                    where=str(self.directory.log(waiting[0])),
                    hint="the log ends with what the worker was doing",
                )
            )

    def _stop(self) -> None:
        """Ask everybody to stop, wait a bounded time, kill what is left, reap all below us."""
        deadline = time.monotonic() + STOP_WITHIN_S
        if self.slab["stop"][0] == 0:
            self.slab["stop"][0] = STOP_FAILED if self._failures else STOP_ASKED
        for bell in self._bells.values():
            bell.ring()
        others = [child for child in self._children if child.boot.role != "train"]
        if any(not child.ready for child in others):
            for child in others:  # still starting: nothing to lose, and the learner needs the cores
                child.kill()
        for child in processes.wait_all(others, WORKERS_WITHIN_S):
            child.kill()
        learners = [child for child in self._children if child.boot.role == "train"]
        while any(child.process.poll() is None for child in learners):
            if time.monotonic() > deadline:
                break
            self._read(0.05)
        for child in self._children:
            child.kill()
        processes.kill_descendants()
        for child in self._children:
            child.process.wait()
        self._read(0.0)

    def _close(self) -> None:
        self._recorder.close()
        self._selector.close()
        for child in self._children:
            child.inbox.close()
        for bell in self._bells.values():
            bell.close()
        self.slab.close()
        self.directory.close()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signal = number
        self._ended = signal.Signals(number).name

    # -- messages --------------------------------------------------------------------------------

    def _read(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            child: Child = key.data
            messages, alive = child.inbox.receive()
            for message in messages:
                self._hear(child, message)
            if not alive:
                self._selector.unregister(child.inbox.fd)
                child.connected = False
                self._mourn(child)

    def _hear(self, child: Child, message: Any) -> None:
        match message:
            case Ready():
                child.ready = True
            case Episodes(rows):
                self.progress.finished(rows)
            case Updated():
                self.progress.updated(message)
                self._recorder.updated(self, message)
            case Saved():
                self._saved = message
            case Failed():
                self._failures.extend(message.diagnostics)

    def _mourn(self, child: Child) -> None:
        """A worker's pipe has ended; unless it was asked to stop, that is a failure of the run."""
        if self.slab["stop"][0] or self._signal is not None or self._failures:
            return
        processes.wait_all([child], 1.0)
        self._failures.append(
            Diagnostic(
                code="worker-died",
                message=f"`{child.name}` (environments {child.boot.first}–{child.boot.last - 1}) "
                f"{child.fate()}\n{child.last_lines()}".rstrip(),
                where=str(child.log),
                hint="the log above ends with what it was doing; out of memory shows as SIGKILL",
            )
        )

    # -- accounts --------------------------------------------------------------------------------

    @property
    def ended(self) -> str:
        """What ended the run: "done", "time limit", or a signal's name."""
        return self._ended

    @property
    def saved(self) -> Saved | None:
        """The last checkpoint."""
        return self._saved

    @property
    def signalled(self) -> int | None:
        """The signal that ended the run, if one did."""
        return self._signal

    def stage_clocks(self) -> dict[str, dict[str, float]]:
        """By stage: busy seconds, firings, items, mean batch and share of the time busy."""
        clock = self.slab["clock"]
        elapsed = max(time.monotonic() - (self.progress.first_step_at or time.monotonic()), 1e-9)
        found: dict[str, dict[str, float]] = {}
        for child in self._children:
            busy, firings, items = (float(value) for value in clock[child.boot.worker, :3])
            entry = found.setdefault(
                child.boot.stage, {"busy_s": 0.0, "firings": 0.0, "items": 0.0, "workers": 0.0}
            )
            entry["busy_s"] += busy / 1e9
            entry["firings"] += firings
            entry["items"] += items
            entry["workers"] += 1
        for entry in found.values():
            entry["busy"] = entry["busy_s"] / entry["workers"] / elapsed
            entry["batch"] = entry["items"] / max(entry["firings"], 1.0)
            entry["seconds"] = entry["busy_s"] / max(entry["firings"], 1.0)
        return found
