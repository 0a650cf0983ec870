"""Segments and who may start one: the runtime's bound on staleness, and the rounds of others.

Invariant: at version v at most (η + v + 1)·B segments have been started and not thrown away, as
in `ebrl/runtime/segments.py`; in rounds each environment has started as many as every other.
"""

from __future__ import annotations

import heapq


class Segment:
    """T decisions of one environment. `runs`: [version, environment steps], oldest first."""

    __slots__ = ("env", "number", "ready_at", "runs", "steps")

    def __init__(self, number: int, env: int) -> None:
        self.number, self.env = number, env
        self.steps = 0
        self.runs: list[list[int]] = []
        self.ready_at = 0.0

    def add(self, version: int, steps: int) -> None:
        self.steps += steps
        if self.runs and self.runs[-1][0] == version:
            self.runs[-1][1] += steps
        else:
            self.runs.append([version, steps])

    @property
    def oldest(self) -> int:
        return self.runs[0][0] if self.runs else 0


class Admission:
    """Whether an environment may start its next segment; who may not is parked by its simulator."""

    by_environment = False  # may one start where another may not?

    def __init__(self, per_batch: int, max_staleness: int | None) -> None:
        self.per_batch = per_batch
        self.eta = max_staleness  # None: no bound
        self.started = 0  # and not thrown away
        self.ever = 0
        self.version = 0

    def start(self, env: int) -> Segment | None:
        if self.eta is not None and self.started >= (self.eta + self.version + 1) * self.per_batch:
            return None
        return self._give(env)

    def _give(self, env: int) -> Segment:
        self.started += 1
        self.ever += 1
        return Segment(self.ever, env)

    def finished(self) -> bool:
        """A segment is full; says whether others may start now."""
        return False

    def published(self, version: int) -> None:
        self.version = version

    def thrown_away(self, envs: list[int]) -> None:
        self.started -= len(envs)


class Rounds(Admission):
    """Each environment gives a round as many segments; the next round begins when the last one has
    ended and the policy is no more than η versions behind it."""

    by_environment = True

    def __init__(self, per_batch: int, max_staleness: int | None, environments: int) -> None:
        super().__init__(per_batch, max_staleness)
        self.each = max(1, per_batch // environments)
        self._of = [0] * environments
        self._round_size = self.each * environments
        self._full = 0
        self.round = 0

    def start(self, env: int) -> Segment | None:
        if self._of[env] >= self.each * (self.round + 1):
            return None
        self._of[env] += 1
        return self._give(env)

    def finished(self) -> bool:
        self._full += 1
        return self._open()

    def published(self, version: int) -> None:
        super().published(version)
        self._open()

    def thrown_away(self, envs: list[int]) -> None:
        super().thrown_away(envs)
        for env in envs:
            self._of[env] -= 1
        self._full -= len(envs)

    def _open(self) -> bool:
        ended = self._full >= self._round_size * (self.round + 1)
        if not ended or (self.eta is not None and self.round + 1 > self.version + self.eta):
            return False
        self.round += 1
        return True


class Ready:
    """Full segments that wait for the learner, oldest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, Segment]] = []
        self.waited_s = 0.0  # all together

    def __len__(self) -> int:
        return len(self._heap)

    def waited_until(self, now: float) -> float:
        """Time that segments waited, all together, those that still wait included."""
        return self.waited_s + sum(now - segment.ready_at for _, segment in self._heap)

    def put(self, segment: Segment, now: float) -> None:
        segment.ready_at = now
        heapq.heappush(self._heap, (segment.number, segment))

    def discard_before(self, version: int, now: float) -> list[Segment]:
        """Those whose oldest step is of an earlier version."""
        stale = [segment for _, segment in self._heap if segment.oldest < version]
        if stale:
            self._heap = [row for row in self._heap if row[1].oldest >= version]
            heapq.heapify(self._heap)
            self.waited_s += sum(now - each.ready_at for each in stale)
        return stale

    def take(self, count: int, now: float) -> list[Segment]:
        taken = [heapq.heappop(self._heap)[1] for _ in range(count)]
        self.waited_s += sum(now - segment.ready_at for segment in taken)
        return taken
