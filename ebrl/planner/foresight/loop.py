"""Replicas of the loop's stages: environments go round simulators and policies.

A simulator on cores takes environments one by one and hands over about every millisecond; one on
a device takes all that are ready, up to its batch, as a policy does. Nobody waits for a batch to
fill. An idle policy is rung once a group of environments, or when a simulator has nothing left.
Invariant: an environment is in one place: waiting at one replica, in one call, behind one gate,
or parked.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from ebrl.planner.foresight.draws import Draws
from ebrl.planner.foresight.sharing import Shared

if TYPE_CHECKING:
    from ebrl.planner.foresight.world import World

FLUSH_S = 4e-3  # of work that a simulator on cores hands over at once
IDLE_S = 0.5  # after which an idle policy looks, whether rung or not


class Replica:
    """One replica that makes calls. `times[n]` is the median of a call of n, slowed down by who
    else is on its device; `calls` such calls are made for one decision of an environment."""

    __slots__ = (
        "batch",
        "begun",
        "busy_s",
        "calls",
        "calls_made",
        "draws",
        "index",
        "items",
        "lasts",
        "node",
        "queue",
        "shared",
        "stage",
        "taken",
        "times",
        "waited_s",
        "wish",
        "working",
        "world",
    )

    def __init__(
        self,
        world: World,
        stage: int,
        index: int,
        node: str,
        *,
        batch: int,
        times: list[float],
        calls: float,
        draws: Draws,
        shared: Shared | None,
        wish: float,
    ) -> None:
        self.world, self.stage, self.index, self.node = world, stage, index, node
        self.batch, self.times, self.calls, self.draws = batch, times, calls, draws
        self.shared, self.wish = shared, wish
        self.queue: deque[int] = deque()
        self.taken: list[int] = []
        self.working = False
        self.busy_s = self.waited_s = 0.0  # working; environments' waiting here, all together
        self.calls_made = self.items = 0
        self.begun = self.lasts = 0.0  # of the call that is being made

    def take(self) -> list[int]:
        """The environments of the next call."""
        queue = self.queue
        if len(queue) <= self.batch:
            taken = list(queue)
            queue.clear()
            return taken
        return [queue.popleft() for _ in range(self.batch)]

    def begin(self, now: float) -> None:
        """Make a call, if there is anything to do and none is being made."""
        if self.working or not self.queue:
            return
        taken = self.take()
        self.working = True
        self.taken = taken
        since = self.world.since
        self.waited_s += now * len(taken) - sum([since[env] for env in taken])
        self._work(now, self.length(taken))

    def length(self, taken: list[int]) -> float:
        """Seconds of a call, alone."""
        return self.times[len(taken)] * self._factor(self.calls)

    def _factor(self, calls: float) -> float:
        whole = int(calls)
        if whole == calls:
            return self.draws.total(whole) if self.draws.vary else calls
        return calls * self.draws.total(1)

    def _work(self, now: float, seconds: float) -> None:
        self.busy_s += seconds
        self.begun, self.lasts = now, seconds
        self.calls_made += 1
        self.items += len(self.taken)
        if self.shared is None:
            self.world.clock.at(now + seconds, self.end)
        else:
            self.shared.start(now, seconds, self.wish, self.end)
        if self.world.tape is not None:
            self.world.tape.begin(self, now)

    def busy_until(self, now: float) -> float:
        """Seconds of work, of the call that is being made no more than has passed."""
        ahead = max(0.0, self.begun + self.lasts - now) if self.working else 0.0
        return self.busy_s - ahead

    def waited_until(self, now: float) -> float:
        """Time that environments waited here, all together, those that still wait included."""
        since = self.world.since
        return self.waited_s + sum(now - since[env] for env in self.queue)

    def end(self, now: float) -> None:
        if self.world.tape is not None:
            self.world.tape.end(self, now)
        taken, self.taken = self.taken, []
        self.working = False
        self.deliver(now, taken)
        self.begin(now)

    def deliver(self, now: float, taken: list[int]) -> None:
        raise NotImplementedError


class Policy(Replica):
    """A stage of the loop that holds no environments: policies, and whatever else is asked."""

    __slots__ = ("_idle_since", "_looks_at", "following", "reads_s", "version")

    def __init__(
        self,
        world: World,
        stage: int,
        index: int,
        node: str,
        *,
        reads_s: float | None,
        **rest: object,
    ) -> None:
        super().__init__(world, stage, index, node, **rest)  # type: ignore[arg-type]
        self.reads_s = reads_s  # to load new weights; None: it has none to load
        self.version = 0
        self.following: dict[int, Replica] = {}  # by environment
        self._idle_since = 0.0
        self._looks_at = -1.0

    def length(self, taken: list[int]) -> float:
        seconds = super().length(taken)
        if self.reads_s is not None:
            world = self.world
            if self.version != world.version:
                self.version = world.version
                seconds += self.reads_s
            for env in taken:
                world.answered[env] = self.version
        return seconds

    def deliver(self, now: float, taken: list[int]) -> None:
        since, following = self.world.since, self.following
        idle: dict[Replica, None] = {}
        for env in taken:
            there = following[env]
            since[env] = now
            there.queue.append(env)
            if not there.working:
                idle[there] = None
        for there in idle:
            there.begin(now)
        self._idle_since = now

    def unrung(self, now: float) -> None:
        """Something was left here without a ring: an idle policy finds it when it looks."""
        if not self.working and self._looks_at < now:
            passed = now - self._idle_since
            self._looks_at = self._idle_since + IDLE_S * (math.floor(passed / IDLE_S) + 1)
            self.world.clock.at(self._looks_at, self.begin)


class GatedPolicy(Policy):
    """A policy that answers sets of environments as they are let through a gate, each set in
    batches of its own or, where `merge`, together with other sets that are there."""

    __slots__ = ("merge", "sets")

    def __init__(self, *given: object, merge: bool, **rest: object) -> None:
        super().__init__(*given, **rest)  # type: ignore[arg-type]
        self.merge = merge
        self.sets: deque[int] = deque()

    def offer(self, now: float, envs: list[int]) -> None:
        since = self.world.since
        for env in envs:
            since[env] = now
        self.queue.extend(envs)
        self.sets.append(len(envs))
        self.begin(now)

    def take(self) -> list[int]:
        count = min(self.sets[0], self.batch)
        self.sets[0] -= count
        if not self.sets[0]:
            self.sets.popleft()
        while self.merge and self.sets and count + self.sets[0] <= self.batch:
            count += self.sets.popleft()
        return [self.queue.popleft() for _ in range(count)]


class Gate:
    """Lets a set of environments through when each of them waits, or is parked."""

    __slots__ = ("_parked", "_policy", "_size", "_waiting")

    def __init__(self, policy: GatedPolicy, size: int) -> None:
        self._policy, self._size = policy, size
        self._waiting: list[int] = []
        self._parked = size  # none has started yet

    def arrive(self, now: float, env: int, *, parked: bool = False) -> None:
        self._waiting.append(env)
        self._parked -= parked
        self._look(now)

    def park(self, now: float) -> None:
        self._parked += 1
        self._look(now)

    def _look(self, now: float) -> None:
        if self._waiting and len(self._waiting) + self._parked >= self._size:
            through, self._waiting = self._waiting, []
            self._policy.offer(now, through)


class Simulator(Replica):
    """A replica that environments live in. `calls` is the steps of a decision."""

    __slots__ = ("_sweep", "_unrung", "group", "on_cores", "parked", "rings", "seen")

    def __init__(
        self, world: World, stage: int, index: int, node: str, *, on_cores: bool, **rest: object
    ) -> None:
        super().__init__(world, stage, index, node, **rest)  # type: ignore[arg-type]
        self.on_cores = on_cores
        self.group = 1
        self.rings: tuple[Policy, ...] = ()  # in whose range its environments are
        self.parked: deque[tuple[int, float]] = deque()  # environment, since when
        self.seen = 0  # openings of admission, when it last looked
        self._unrung = 0
        self._sweep = 0  # environments left of this sweep

    def length(self, taken: list[int]) -> float:
        if not self.on_cores:
            return super().length(taken)
        left, most = self.world.episode_left, int(self.calls)
        steps = 0
        for env in taken:  # a decision is cut short where the episode ends
            here = left[env]
            steps += most if here > most else here
        return self.times[1] * (self.draws.total(steps) if self.draws.vary else steps)

    def deliver(self, now: float, taken: list[int]) -> None:
        world = self.world
        given = world.stepped(now, taken)
        self._sweep -= len(taken)
        if self._sweep <= 0:
            if self.parked and self.seen != world.openings:
                world.look(now, self)
            self._sweep = len(self.queue)
        if world.gates:
            return
        self._unrung += given
        if self._unrung >= self.group or not self.queue:
            self._unrung = 0
            for policy in self.rings:
                policy.begin(now)
        elif given:
            for policy in self.rings:
                policy.unrung(now)
