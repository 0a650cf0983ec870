"""The learner: takes a batch of segments, updates on all its ranks, publishes.

Ranks meet after every minibatch, so an update lasts as long as its slowest rank, minibatch by
minibatch; then come the all-reduces and the publication, as the plan reckons them. Invariant: a
segment is trained on once or thrown away, and admission opens when the new version is out.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ebrl.planner.foresight.draws import Draws
from ebrl.planner.foresight.segments import Segment
from ebrl.planner.foresight.sharing import Shared

if TYPE_CHECKING:
    from ebrl.planner.foresight.world import World


MARGIN = 1.25  # as in ebrl/runtime/train.py: updates do not all take the same time


class Rank:
    """`call_s`: the median of one of `calls` equal calls that make up its share of an update; no
    share, no call."""

    __slots__ = ("busy_s", "call_s", "calls", "draws", "index", "lasts", "node", "shared", "wish")

    def __init__(
        self,
        index: int,
        node: str,
        *,
        calls: int,
        call_s: float,
        draws: Draws,
        shared: Shared | None,
        wish: float,
    ) -> None:
        self.index, self.node = index, node
        self.calls, self.call_s, self.draws = calls, call_s, draws
        self.shared, self.wish = shared, wish
        self.busy_s = self.lasts = 0.0  # all work, and that of the newest update

    def works(self, seconds: float) -> None:
        """An update's work."""
        self.busy_s += seconds
        self.lasts = seconds

    def times(self, meetings: int) -> list[float]:
        """Seconds up to each meeting of the ranks, drawn anew."""
        if not self.draws.vary or not self.calls:
            return [self.calls * self.call_s / meetings] * meetings
        each = math.ceil(self.calls / meetings)
        factors = self.draws.factors(each * meetings).reshape(meetings, each).mean(axis=1)
        whole = self.calls * self.call_s / meetings
        return [whole * float(factor) for factor in factors]


class Learner:
    """All ranks together. `meetings`: minibatches of one update."""

    def __init__(
        self,
        world: World,
        ranks: list[Rank],
        *,
        meetings: int,
        reduce_s: float,
        publish_s: float,
        fresh: int | None,
        patient: bool,
    ) -> None:
        self.world, self.ranks, self.meetings = world, ranks, meetings
        self.reduce_s, self.publish_s = reduce_s, publish_s
        self.fresh = fresh  # η: older segments are thrown away; None: none are
        self._patient = patient  # it waits for what an update would make stale, if that is free
        self._headroom: int | None = None
        self._began: float | None = None  # when the last update did
        self.version = 0
        self.updating = False
        self.waiting_s = self.computing_s = self.overhead_s = 0.0
        self.updates: list[tuple[float, int]] = []  # when each ended, steps trained till then
        self.trained = self.discarded = 0
        self.staleness: Counter[int] = Counter()  # environment steps, by versions behind
        self._batch: list[Segment] = []
        self._since = 0.0  # begun, or idle
        self._begun = 0.0
        self._began_before: float | None = None
        self._working = 0
        self._fixed = [rank for rank in ranks if rank.shared is None and rank.calls]
        self._plain = not any(rank.draws.vary for rank in self._fixed)

    def times_until(self, now: float) -> tuple[float, float, float]:
        """Seconds of computing, of reducing and publishing, of waiting for a batch."""
        here = now - self._since
        if not self.updating:
            return self.computing_s, self.overhead_s, self.waiting_s + here
        if self._working:
            return self.computing_s + here, self.overhead_s, self.waiting_s
        return self.computing_s, self.overhead_s + here, self.waiting_s

    def busy_until(self, now: float) -> list[float]:
        """Seconds of work by rank, of the update that is being made no more than has passed."""
        passed = now - self._since if self._working else math.inf
        return [rank.busy_s - max(0.0, rank.lasts - passed) for rank in self.ranks]

    def batch_staleness(self) -> float:
        """Mean over the steps of the batch being trained on, in versions."""
        steps = max(1, sum(segment.steps for segment in self._batch))
        behind = sum((self.version - v) * n for each in self._batch for v, n in each.runs)
        return behind / steps

    def look(self, now: float) -> None:
        """Start an update if there is a batch."""
        world = self.world
        if self.updating or len(world.ready) < world.admission.per_batch:
            return
        if self.fresh is not None:
            stale = world.ready.discard_before(self.version - self.fresh, now)
            if stale:
                self.discarded += sum(segment.steps for segment in stale)
                world.admission.thrown_away([segment.env for segment in stale])
                world.open(now)
                if len(world.ready) < world.admission.per_batch:
                    return
        if self._waits_for_ageing():
            return
        self._batch = world.ready.take(world.admission.per_batch, now)
        self.updating = True
        self.waiting_s += now - self._since
        self._since = now
        self._begun, self._began_before = now, self._began
        self._began = now
        self._account()
        if world.tape is not None:
            world.tape.update_begins(self, now)
        self._compute(now)

    def _waits_for_ageing(self) -> bool:
        """Would an update make segments stale that are being filled, and is waiting for them free,
        since admission leaves more than is started during an update?"""
        if self._headroom is None or self.fresh is None:
            return False
        admission = self.world.admission
        room = (self.fresh + self.version + 1) * admission.per_batch - admission.started
        return room > self._headroom and self.world.ageing(self.version - self.fresh)

    def _plan_headroom(self, now: float) -> None:
        """Segments that are started during an update, from how busy the last one kept it."""
        if self._patient and self._began_before is not None:
            busy = min(1.0, MARGIN * (now - self._begun) / (self._begun - self._began_before))
            self._headroom = math.ceil(busy * self.world.admission.per_batch)

    def _account(self) -> None:
        for segment in self._batch:
            for version, steps in segment.runs:
                self.staleness[self.version - version] += steps

    def _compute(self, now: float) -> None:
        self._working = 0
        if self._fixed:
            self._working += 1
            self.world.clock.at(now + self._meet(), self._rank_ended)
        for rank in self.ranks:
            if rank.shared is not None and rank.calls:
                self._working += 1
                seconds = sum(rank.times(self.meetings))
                rank.works(seconds)
                rank.shared.start(now, seconds, rank.wish, self._rank_ended)

    def _meet(self) -> float:
        """Seconds until the ranks that share nothing have met for the last time."""
        if self._plain:
            slowest = 0.0
            for rank in self._fixed:
                seconds = rank.calls * rank.call_s
                rank.works(seconds)
                slowest = max(slowest, seconds)
            return slowest
        times = np.array([rank.times(self.meetings) for rank in self._fixed])
        for rank, seconds in zip(self._fixed, times.sum(axis=1).tolist(), strict=True):
            rank.works(seconds)
        return float(times.max(axis=0).sum())

    def _rank_ended(self, now: float) -> None:
        self._working -= 1
        if self._working:
            return
        self.computing_s += now - self._since
        self._since = now
        if self.world.tape is not None:
            self.world.tape.compute_ends(self, now)
        self.world.clock.at(now + self.reduce_s + self.publish_s, self._published)

    def _published(self, now: float) -> None:
        self.overhead_s += now - self._since
        self._since = now
        self.version += 1
        self.updating = False
        self.trained += sum(segment.steps for segment in self._batch)
        self._batch = []
        self.updates.append((now, self.trained))
        self._plan_headroom(now)
        if self.world.tape is not None:
            self.world.tape.published(self, now)
        self.world.new_version(now, self.version)
        self.look(now)
