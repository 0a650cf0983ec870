"""A run: the plan's workers started, watched, stopped, and accounted for.

Invariants: whatever ends the run (its work done, a signal, a fault that comes back again and again,
an error of our own) goes through one `finally`: workers are asked, then killed; descendants are
reaped; the ledger is read when nobody writes to it any more. What becomes of workers in between is
`supervise`'s. The run itself imports neither torch nor a simulator.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from ebrl.errors import Diagnostic, RunError
from ebrl.planner.layout import PRODUCED_AT, segments_per_batch
from ebrl.planner.plan import Plan, encode
from ebrl.runtime import assign, clocks, ending, memory, preflight, processes, resume
from ebrl.runtime.bell import Bell
from ebrl.runtime.best import Best
from ebrl.runtime.boot import Boot
from ebrl.runtime.desk import Desk
from ebrl.runtime.emulation.setup import Emulation
from ebrl.runtime.events import Events
from ebrl.runtime.ledger import read as read_ledger
from ebrl.runtime.messages import (
    Born,
    EnvironmentFailed,
    Episodes,
    Failed,
    Ready,
    Saved,
    Skipped,
    Updated,
    Warned,
)
from ebrl.runtime.nursery import Nursery
from ebrl.runtime.options import Options
from ebrl.runtime.playing import Playing
from ebrl.runtime.processes import Child
from ebrl.runtime.progress import Progress, score
from ebrl.runtime.quota.devices import Devices
from ebrl.runtime.record import Recorder, memory_bytes
from ebrl.runtime.rundir import CHECKPOINT, PLAN, SUMMARY, RunDirectory
from ebrl.runtime.segments import Segments
from ebrl.runtime.slab import Slab
from ebrl.runtime.summary import Summary, summarise
from ebrl.runtime.supervise import Supervisor
from ebrl.runtime.watch.watcher import Watcher

TICK_S, SOON_S = 0.2, 0.01  # between looks at the workers; while one is being replaced
SHOW_S = 0.5
MEMORY_EVERY_S = 5.0
STOP_DONE, STOP_ASKED, STOP_FAILED = 1, 2, 3

__all__ = ["Options", "Run"]
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
        emulation: Emulation | None = None,
    ) -> None:
        preflight.check(plan, emulated=emulation is not None)
        self.made, self.playing = plan, Playing(plan, emulation, directory.path)
        self.room = self.playing.room
        self.plan = self.playing.plays(plan)
        self.options = options
        self.directory = directory
        self.progress = Progress(self.playing.speed)
        self._recorder = Recorder(directory.path)
        self.events = Events(directory.path)
        self.devices = Devices(options.quota if emulation is None else None, self.events)
        self._graph = graph
        self._graph_sha256 = graph_sha256
        self._layout = assign.layout_of(self.plan, weights_bytes, self.room)
        self._resumed = (
            resume.find(Path(options.resume), plan, any_graph=graph_sha256 is None)
            if options.resume
            else None
        )
        recorded = 0 if self._resumed is None else self._resumed[1].seed
        self.seed = recorded if options.seed is None else options.seed
        every = options.checkpoint_every_updates
        self._anew_every = every if plan.max_staleness == 0 else None
        self._failures: list[Diagnostic] = []
        self.signalled: int | None = None  # the signal that ended it, if one did
        self.ended = "done"  # or "time limit", "failed", a signal's name
        self.saved: Saved | None = None  # the last checkpoint
        self._best = Best()
        self.memory = self.skipped = 0  # bytes at the most; updates that were left out
        (directory.path / PLAN).write_bytes(encode(self.made))

    # -- life ------------------------------------------------------------------------------------

    def execute(self, watch: Watch) -> Summary:
        """Start, go on until the end, stop, account. Raises RunError when a worker failed."""
        processes.become_reaper()
        if self._resumed is not None:
            self.events.add("resumed", checkpoint=str(self._resumed[0]))
        handlers = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        self.slab = Slab.create(self._layout, available_bytes=preflight.memory_available())
        self.slab["weights/version"][0] = -1
        self.slab["weights/writing"][0] = -1
        if self._resumed is not None:
            resume.restore(self.slab, self.plan, self._resumed[1])
        self._memory = memory.create()
        self._bells = {name: Bell() for name in self.room.names()}
        self.desk = Desk(self._hear)
        self.segments = Segments(
            self.slab,
            per_batch=segments_per_batch(self.plan.program),
            max_staleness=self.plan.max_staleness,
        )
        self.supervisor = Supervisor(
            host=self,
            events=self.events,
            patience=self.options.patience,
            hang_after_s=self.options.hang_after_s,
            worker_memory_bytes=self.options.worker_memory_bytes,
            available=preflight.memory_free,
        )
        self._nursery: Nursery | None = None
        self.watcher = Watcher(
            self,
            self.directory.path,
            self.options.replan,
            speed=self.progress.speed,
            cores=preflight.cores_of(self.plan),
        )
        try:
            try:
                self.devices.take(self.plan)
                self._start()
                self._watch(watch)
            finally:
                self._stop()
                ledger = read_ledger(self.slab, self.segments)
                summary = summarise(self, ledger)
            watch(self)  # for the last time, while there is a slab to look at
        finally:
            self._close()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        self._write(SUMMARY, msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
        if self._failures:
            raise RunError.of(self._failures)
        assert ledger.balance == 0, f"the ledger does not balance: {ledger}"
        return summary

    def boots(self, plan: Plan) -> tuple[Boot, ...]:
        """What each worker of this plan is told; the plan may be another than the first."""
        bells = {name: bell.fd for name, bell in self._bells.items()}
        return assign.boots(
            self.playing.plays(plan),
            self._layout,
            room=self.room,
            graph=str(self._graph),
            graph_sha256=self._graph_sha256,
            slab_fd=self.slab.fd,
            bells=bells,
            seed=self.seed,
            total_steps=self.options.steps,
            run_dir=str(self.directory.path),
            checkpoint_every_s=self.options.checkpoint_every_s,
            checkpoint_every_updates=self._anew_every,
            resume=None if self._resumed is None else str(self._resumed[0]),
            trained_before=0 if self._resumed is None else self._resumed[1].trained,
            memory_fds=self._memory,
            recycle_every=self.options.recycle_every,
            patience=self.options.patience,
            trace_records=self.options.trace_records,
            devices=self.devices,
            emulation=self.playing.cues(plan, seed=self.seed),
        )

    def _start(self) -> None:
        self._nurse()
        for boot in sorted(
            self.boots(self.made), key=lambda boot: boot.role != "simulate"
        ):  # they need least
            if self.signalled is not None:
                return
            self.supervisor.post(boot)

    def _nurse(self) -> None:
        """A process that workers are forked from."""
        shared = (self.slab.fd, *self._memory, *(bell.fd for bell in self._bells.values()))
        self._nursery = Nursery(shared, self.directory.log("nursery"))

    def _watch(self, watch: Watch) -> None:
        """Read messages until the work is done, nothing helps, or we are asked to stop."""
        sampled = shown = 0.0
        while True:
            self.desk.read(SOON_S if self.supervisor.unsettled else TICK_S)
            now = time.monotonic()
            self._note_first_step()
            if self._failures or self.signalled is not None or self._over(now):
                return
            self.supervisor.tick()
            self.watcher.tick()
            if now - sampled > MEMORY_EVERY_S:
                sampled = now
                self.memory = max(self.memory, memory_bytes())
            if now - shown > SHOW_S:
                shown = now
                watch(self)

    def _over(self, now: float) -> bool:
        if self.slab["stop"][0] == STOP_DONE:
            return True
        limit, began = self.options.seconds, self.progress.first_step_at
        if limit is not None and began is not None and now - began > limit:
            self.ended = "time limit"
            return True
        return False

    def _note_first_step(self) -> None:
        if self.progress.first_step_at is None:
            firsts = self.slab["produced"][:, PRODUCED_AT]
            if firsts.any():
                self.progress.first_step_at = float(firsts[firsts > 0].min()) / 1e9

    def _stop(self) -> None:
        """Ask everybody to stop, wait a bounded time, kill what is left, reap all below us."""
        if self.slab["stop"][0] == 0:
            self.slab["stop"][0] = STOP_FAILED if self._failures else STOP_ASKED
        self.ring_all()
        posts = self.supervisor.posts
        ending.stop_workers(posts, self._nursery, self.desk.read, release=self.devices.close)
        self.supervisor.settle_accounts()
        version = int(self.slab["weights/version"][0])
        if version >= 0 and not any(
            post.boot.role == "train" and post.boot.index == 0 and post.child.poll() == 0
            for post in posts
            if post.child is not None
        ):
            folder = self.directory.path / CHECKPOINT
            kept = ending.save_from_memory(folder, self._memory, version, self.events)
            self.saved = kept or self.saved

    def _close(self) -> None:
        self.watcher.close()
        self._recorder.close()
        self.events.close()
        for post in self.supervisor.posts:
            if post.child is not None:
                self.desk.bury(post.child)
        self.desk.close()
        for bell in self._bells.values():
            bell.close()
        for fd in self._memory:
            os.close(fd)
        self.slab.close()
        self.directory.close()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.signalled = number
        self.ended = signal.Signals(number).name

    # -- messages --------------------------------------------------------------------------------

    def _hear(self, child: Child, message: Any) -> None:
        match message:
            case Born(pid):
                self.supervisor.born(child, pid)
            case Ready():
                self.supervisor.ready(child)
            case Episodes(rows):
                self.progress.finished(rows)
            case Updated():
                self.progress.updated(message)
                self._recorder.updated(self, message)
            case Saved():
                self.saved = message
                self._best.saved(message, score(self.progress.recent))
            case Skipped():
                self.skipped += 1
                self.events.skipped(message)
            case Warned(text):
                self.events.add("warning", text, worker=child.name)
            case EnvironmentFailed():
                self.supervisor.environment_failed(message)
            case Failed():
                child.failure = message

    def _write(self, name: str, data: bytes) -> None:
        try:
            (self.directory.path / name).write_bytes(data)
        except OSError as error:
            print(f"warning: {name} is not written: {error}", file=sys.stderr)

    # -- what the supervisor asks ------------------------------------------------------------------

    def hatch(self, boot: Boot, *, alone: bool = False) -> Child:
        """A new worker, forked from the nursery, or in an interpreter of its own."""
        if not alone and self._nursery is not None and not self._nursery.alive:
            self.events.add("warning", "the nursery has died; there is another")
            self._nursery.close()
            self._nurse()
        child = processes.spawn(
            boot, self.directory.log(boot.name), None if alone else self._nursery
        )
        self.desk.open(child)
        return child

    def clear_meeting(self) -> None:
        """Learners that find each other by it are all gone."""
        os.ftruncate(self._memory[2], 0)

    def ring_all(self) -> None:
        for bell in self._bells.values():
            bell.ring()

    def give_up(self, diagnostic: Diagnostic) -> None:
        """Nothing helps: the run ends with this."""
        self.ended = "failed"
        self._failures.append(diagnostic)
        self.events.add("gave-up", diagnostic.message, code=diagnostic.code, loud=False)

    # -- accounts --------------------------------------------------------------------------------

    def stage_clocks(self) -> dict[str, dict[str, float]]:
        """By stage: busy seconds, firings, items, mean batch and share of the time busy."""
        elapsed = time.monotonic() - (self.progress.first_step_at or time.monotonic())
        return clocks.by_stage(self.slab, self.supervisor.posts, max(elapsed, 1e-9))
