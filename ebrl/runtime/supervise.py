"""Watches every worker of a run, and puts another in the place of one that is dead or might as well
be.

A post is one worker's place: its row in the slab, its environments, its bell. Whoever holds it may
die at any instruction; the post stays, and goes through

    starting → running → ending (killed, not yet gone) → clearing → resting → starting

Invariants:
- Nobody is started at a post before the one before is gone, and what it held is back: segments a
  simulate worker was filling are thrown away and counted, a learner's wait for the next learner; a
  generate worker holds nothing, its environments simply go on waiting.
- Segments are taken from a dead simulate worker only after every generate worker that may be
  answering its environments has been seen to begin a new round (or is gone): else it would write
  into segments that already belong to others.
- All decisions rest on the slab, the kernel and the clock. A stopped machine, or a stopped run, is
  not taken for hanging workers.
- What fails again and again is tried more rarely, then given up with the reason (`strikes`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from ebrl.errors import Diagnostic
from ebrl.planner.layout import CLOCK_BEAT, CLOCK_RETIRE
from ebrl.runtime.boot import Boot
from ebrl.runtime.desk import Desk
from ebrl.runtime.events import Events
from ebrl.runtime.growth import too_large
from ebrl.runtime.messages import EnvironmentFailed, Failed
from ebrl.runtime.posts import Phase, Post
from ebrl.runtime.processes import Child
from ebrl.runtime.segments import ABSENT, Segments
from ebrl.runtime.slab import Slab
from ebrl.runtime.strikes import Strikes

START_WITHIN_S = 300.0
HANG_AFTER_S = {"simulate": 60.0, "generate": 60.0, "train": 600.0}  # an update may be long
SLOWER = 5.0  # than the slowest start at a post, a start may be
STOPPED_S = 0.5  # SIGSTOP is borne so long
LATE_S = 2.0  # a tick so late means that we were stopped ourselves
GROWN_BYTES = (
    200 << 20
)  # what a worker must have grown by to be blamed for a machine without memory
LOW_MEMORY = 0.05


class Host(Protocol):
    """What supervision asks of a run."""

    slab: Slab
    segments: Segments
    desk: Desk

    def hatch(self, boot: Boot, *, alone: bool = False) -> Child: ...
    def ring_all(self) -> None: ...
    def clear_meeting(self) -> None: ...
    def give_up(self, diagnostic: Diagnostic) -> None: ...


@dataclass(slots=True)
class Supervisor:
    """The posts of a run. `tick` is called often; it never waits."""

    host: Host
    events: Events
    patience: int
    hang_after_s: float | None
    worker_memory_bytes: int | None
    available: Callable[[], float]  # part of the machine's memory that is free
    posts: list[Post] = field(default_factory=list)
    restarts: int = 0
    rebuilds: int = 0
    recoveries_s: list[float] = field(default_factory=list)
    _environments: dict[int, Strikes] = field(default_factory=dict)
    _ticked: float = 0.0
    _memory_at: float = 0.0

    # -- what the run calls ----------------------------------------------------------------------

    def post(self, boot: Boot) -> Post:
        """A new place, and a worker for it."""
        made = Post(boot, Strikes(self.patience))
        self.posts.append(made)
        self._start(made)
        return made

    def of(self, child: Child) -> Post:
        return next(post for post in self.posts if post.child is child)

    def retire(self, name: str) -> Post:
        """Let a worker end in order: it fills what it is filling, and nobody follows it."""
        post = next(post for post in self.posts if post.name == name)
        post.retiring = True
        self.host.slab["clock"][post.boot.worker, CLOCK_RETIRE] = 1
        self.host.ring_all()
        return post

    def dismiss(self, post: Post) -> None:
        """A retired worker's post is given up; what it could not fill is thrown away and counted.

        Whoever answered its environments must be gone.
        """
        assert post.phase is Phase.RETIRED, post.phase
        if post.boot.role == "simulate":
            self._reclaim(post, "interrupted")
        self.posts.remove(post)

    @property
    def unsettled(self) -> bool:
        """Some post waits for something that the next tick may find."""
        waiting = (Phase.ENDING, Phase.CLEARING, Phase.RESTING)
        return any(post.phase in waiting or post.stopped_since is not None for post in self.posts)

    def born(self, child: Child, pid: int) -> None:
        child.pid = pid

    def ready(self, child: Child) -> None:
        """It has told that it is built."""
        post, now = self.of(child), time.monotonic()
        child.ready = True
        post.was_ready = True
        post.start_s = max(post.start_s, now - child.began)
        post.resident_at_ready = child.resident_bytes()
        post.turn(Phase.RUNNING)
        post.strikes.mended(now)
        if post.failed_at is not None:
            seconds = now - post.failed_at
            self.recoveries_s.append(seconds)
            self.events.add(
                "recovered", worker=post.name, pid=child.pid, recovery_s=round(seconds, 3)
            )
            post.failed_at = None

    def environment_failed(self, told: EnvironmentFailed) -> None:
        """A simulate worker has thrown one environment away and is building another."""
        strikes = self._environments.setdefault(told.environment, Strikes(self.patience))
        strikes.strike(time.monotonic())
        strikes.mended(time.monotonic())
        self.rebuilds += 1
        where = told.where or f"environment {told.environment}"
        self.events.add(
            "environment-failed",
            f"environment {told.environment} is built anew, {told.steps} steps are thrown away: "
            f"{told.message}",
            environment=told.environment,
            where=where,
            steps=told.steps,
        )
        if strikes.enough:
            self.host.give_up(
                Diagnostic(
                    code="environment-keeps-failing",
                    message=f"environment {told.environment} failed {strikes}; the last time: "
                    f"{told.message}",
                    where=where,
                    hint="the fault is the environment's own; its tracebacks are in the log of "
                    "its simulate worker",
                )
            )

    def tick(self) -> None:
        """Look at every post once."""
        now = time.monotonic()
        if self._ticked and now - self._ticked > LATE_S:
            for post in self.posts:  # it was not they who stood still
                post.since = now
                post.stopped_since = None
        self._ticked = now
        for post in self.posts:
            self._look(post, now)
        if now - self._memory_at > 1.0:
            self._memory_at = now
            self._look_at_memory()

    def settle_accounts(self) -> None:
        """Everybody is gone: take back what those held who did not end in order."""
        self.host.segments.settle()
        for post in self.posts:
            child = post.child
            if post.boot.role == "simulate" and (child is None or child.poll() != 0):
                self._reclaim(post, "interrupted")
            elif post.boot.role == "train":
                self.host.segments.give_back()

    # -- one post --------------------------------------------------------------------------------

    def _look(self, post: Post, now: float) -> None:
        child = post.child
        match post.phase:
            case Phase.STARTING | Phase.RUNNING:
                assert child is not None
                if child.gone:
                    self._ended(post, child)
                else:
                    self._look_at_pulse(post, child, now)
            case Phase.ENDING:
                assert child is not None
                if child.gone:
                    self._clear(post, child)
                elif now - post.since > LATE_S:
                    child.kill()
            case Phase.CLEARING:
                if self._answered(post):
                    lost = self._reclaim(post, "worker-lost")
                    self.events.add("reclaimed", worker=post.name, steps=lost)
                    post.turn(Phase.RESTING)
            case Phase.RESTING:
                peers = self._peers(post)
                if all(each.phase is Phase.RESTING and now >= each.rest_until for each in peers):
                    if len(peers) > 1:
                        self.host.clear_meeting()
                    for each in peers:
                        self._start(each)
            case Phase.RETIRED:
                pass

    def _ended(self, post: Post, child: Child) -> None:
        """It has ended by itself."""
        if child.refused:
            self.host.desk.bury(child)
            post.child = self.host.hatch(post.boot, alone=True)
            return
        if child.poll() == 0 and post.retiring:
            self.host.desk.bury(child)
            post.turn(Phase.RETIRED)
            self.events.add("retired", worker=post.name)
            return
        self.host.desk.bury(child)  # what it told last comes first
        self.fault(post, child.fate(), failure=child.failure)

    def _look_at_pulse(self, post: Post, child: Child, now: float) -> None:
        if child.stopped():
            post.stopped_since = post.stopped_since or now
            if now - post.stopped_since > STOPPED_S:
                self.fault(post, "was stopped (SIGSTOP) and did not go on")
            return
        post.stopped_since = None
        hang_s = self.hang_after_s or HANG_AFTER_S[post.boot.role]
        if not child.ready:
            limit_s = START_WITHIN_S
            if post.start_s:  # known by now
                limit_s = min(limit_s, SLOWER * post.start_s + hang_s)
            if now - post.since > limit_s:
                post.stopped_since = post.since
                self.fault(post, f"was not ready after {limit_s:.1f} s")
            return
        beat = int(self.host.slab["clock"][post.boot.worker, CLOCK_BEAT]) / 1e9
        silent = now - max(beat, post.since)
        if silent > hang_s:
            post.stopped_since = now - silent
            self.fault(post, f"hung: no sign of life for {silent:.1f} s")

    def fault(self, post: Post, how: str, *, failure: Failed | None = None) -> None:
        """The worker at this post is dead, or is to be."""
        child, now = post.child, time.monotonic()
        assert child is not None
        rest_s = post.strikes.strike(now)
        if post.failed_at is None:
            post.failed_at = post.stopped_since or now
        told = f": {failure.diagnostics[0].message}" if failure else ""
        last = "" if failure else child.last_lines()
        self.events.add("fault", f"{post.what} {how}{told}", worker=post.name, pid=child.pid)
        child.kill()
        for peer in self._peers(post):  # without this one, they wait for ever
            if peer is not post and peer.phase in (Phase.STARTING, Phase.RUNNING) and peer.child:
                peer.child.kill()
                peer.turn(Phase.ENDING)
        post.stopped_since = None
        post.rest_until = now + rest_s
        post.turn(Phase.ENDING)
        if failure is not None and (failure.final or not post.was_ready):
            for each in failure.diagnostics:
                self.host.give_up(each)
        elif post.strikes.enough:
            self.host.give_up(
                Diagnostic(
                    code="worker-keeps-failing",
                    message=f"{post.what} failed {post.strikes}; the last time it {how}{told}"
                    + (f"\n{last}" if last else ""),
                    where=str(child.log),
                    hint="its log ends with what it was doing; out of memory shows as SIGKILL",
                )
            )

    def _clear(self, post: Post, child: Child) -> None:
        """It is gone: take back what it held."""
        self.host.desk.bury(child)
        host = self.host
        if post.boot.role == "simulate":
            self._out_of_service(post)
            post.marked_ns = time.monotonic_ns()
            host.ring_all()
            post.turn(Phase.CLEARING)
            return
        if post.boot.role == "train":
            host.segments.give_back()
        post.turn(Phase.RESTING)

    def _answered(self, post: Post) -> bool:
        """Nobody is answering its environments any more."""
        clock = self.host.slab["clock"]
        for other in self._generators(post.boot):
            if other.phase in (Phase.STARTING, Phase.RUNNING, Phase.ENDING):
                assert other.child is not None
                beat = int(clock[other.boot.worker, CLOCK_BEAT])
                if not other.child.gone and beat <= post.marked_ns:
                    return False
        return True

    def _peers(self, post: Post) -> list[Post]:
        """Those who are started together: learners that share each update."""
        if post.boot.role != "train":
            return [post]
        return [each for each in self.posts if each.boot.role == "train"]

    def _generators(self, boot: Boot) -> Iterator[Post]:
        for post in self.posts:
            overlaps = post.boot.first < boot.last and boot.first < post.boot.last
            if post.boot.role == "generate" and overlaps:
                yield post

    def _out_of_service(self, post: Post) -> None:
        self.host.slab["env/state"][post.boot.first : post.boot.last] = ABSENT

    def _reclaim(self, post: Post, reason: Any) -> int:
        boot = post.boot
        self._out_of_service(post)
        self.host.slab["env/lives"][boot.first : boot.last] += 1
        lost = self.host.segments.reclaim(boot.worker, boot.first, boot.last, reason)
        self.host.ring_all()
        return lost

    def _start(self, post: Post) -> None:
        if post.child is not None:
            self.restarts += 1
            post.boot = msgspec.structs.replace(post.boot, life=post.boot.life + 1)
        post.child = self.host.hatch(post.boot)
        post.turn(Phase.STARTING)

    def _look_at_memory(self) -> None:
        running = [post for post in self.posts if post.phase is Phase.RUNNING]
        for post, how in too_large(running, self.worker_memory_bytes, self.available()):
            self.fault(post, how)
