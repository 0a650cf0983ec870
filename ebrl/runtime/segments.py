"""Who owns which segment, and whether another may be started.

Invariants: a segment is in one state with one owner, free → filling (a simulate worker) → ready →
training (the learner) → free. The states in the slab are the only truth: no list and no queue
beside them, so whatever dies in between, the states still say what is where. Every change of owner
happens under the slab's lock.

Admission (AReaL's bound, in segments): with B segments a batch and the policy at version v, at most
(η + v + 1)·B segments have been started. So what is generated can be trained within η versions;
what a straggler still delivers too late is thrown away, and counted. With η = 0 each environment
starts the same number a version, which fixes the composition of the batches.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.layout import DISCARD_REASONS
from ebrl.runtime.slab import Slab

Reason = Literal["stale", "interrupted", "worker-lost"]


# Plain numbers: they are compared with arrays on the hot path, where an enum's look-up costs more.
FREE, FILLING, READY, TRAINING = range(4)  # of a segment

ABSENT = 0  # an environment that is not built yet
NEEDS_STEP = 1  # has an action: the simulate worker's turn
NEEDS_ACTION = 2  # has an observation: the generate worker's turn
PARKED = 3  # waits until admission lets it start a segment


class Segments:
    """The pool of segments, seen from any process."""

    def __init__(self, slab: Slab, *, per_batch: int, max_staleness: int) -> None:
        self._slab = slab
        self._state = slab["segment/state"]
        self._environment = slab["segment/environment"]
        self._order = slab["segment/order"]
        self._steps = slab["steps"]
        self._ends = (slab["terminated"], slab["truncated"])
        self._version_of = slab["version"]
        self._started = slab["started"]
        self._orders = slab["order"]
        self._released = slab["released"]
        self._weights_version = slab["weights/version"]
        self._env_started = slab["env/started"]
        self._discarded = slab["discarded"]
        self.per_batch = per_batch
        self.max_staleness = max_staleness
        self.per_environment = per_batch // len(self._env_started) if max_staleness == 0 else None

    # -- the simulate worker's side ----------------------------------------------------------------

    def start(self, environment: int) -> int | None:
        """A free segment for this environment, or None while admission says no."""
        with self._slab.lock():
            version = int(self._weights_version[0])
            if self.per_environment is not None:
                if self._env_started[environment] >= self.per_environment * (version + 1):
                    return None
            elif self._started[0] >= (self.max_staleness + version + 1) * self.per_batch:
                return None
            free = np.flatnonzero(self._state == FREE)
            if free.size == 0:
                return None
            segment = int(free[0])
            self._steps[segment] = 0
            for flags in self._ends:  # written again only where an episode ends
                flags[segment] = False
            self._environment[segment] = environment
            self._order[segment] = self._orders[0]
            self._orders[0] += 1
            self._started[0] += 1
            self._env_started[environment] += 1
            self._state[segment] = FILLING
        return segment

    def finish(self, segment: int) -> bool:
        """Hand a full segment to the learner; says whether a whole batch is ready now."""
        with self._slab.lock():
            self._state[segment] = READY
            ready = int(np.count_nonzero(self._state == READY))
        return ready >= self.per_batch

    # -- the learner's side ------------------------------------------------------------------------

    def take(self, version: int) -> NDArray[np.int64] | None:
        """A batch to train from `version`, oldest first, or None while there are too few.

        Segments whose oldest step is more than η versions behind are thrown away here: this is the
        moment of training, so time spent in the queue counts.
        """
        with self._slab.lock():
            ready = np.flatnonzero(self._state == READY)
            stale = ready[version - self.oldest_version(ready) > self.max_staleness]
            if stale.size:
                self._discard(stale, "stale")
                ready = np.setdiff1d(ready, stale)
            if ready.size < self.per_batch:
                return None
            order = self._order[ready]
            if self.per_environment is not None:  # the same batch, row by row, in every run
                chosen = ready[np.lexsort((order, self._environment[ready]))][: self.per_batch]
            else:
                chosen = ready[np.argsort(order)][: self.per_batch]
            self._state[chosen] = TRAINING
        return chosen

    def release(self, segments: NDArray[np.int64]) -> None:
        """Trained: free again."""
        with self._slab.lock():
            self._state[segments] = FREE
            self._released[0] += 1

    @property
    def openings(self) -> int:
        """Grows whenever `start` may say yes where it said no: segments freed, a new version."""
        return int(self._released[0]) + int(self._weights_version[0])

    # -- anybody's ---------------------------------------------------------------------------------

    def discard(self, segments: NDArray[np.int64], reason: Reason) -> None:
        """Throw segments away and count their steps; admission may start others in their place."""
        with self._slab.lock():
            self._discard(segments, reason)

    def of_environments(self, first: int, last: int) -> NDArray[np.int64]:
        """Segments being filled by environments in [first, last)."""
        mine = (self._environment >= first) & (self._environment < last)
        return np.flatnonzero(mine & (self._state == FILLING))

    def oldest_version(self, segments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Version of the first decision of each segment, [len(segments)]."""
        first = np.argmax(self._steps[segments] > 0, axis=1)
        oldest: NDArray[np.int64] = self._version_of[segments, first]
        return oldest

    def in_flight(self) -> int:
        """Environment steps in segments that are neither trained nor thrown away."""
        alive = np.flatnonzero(self._state != FREE)
        return int(self._steps[alive].sum(dtype=np.int64))

    def _discard(self, segments: NDArray[np.int64], reason: Reason) -> None:
        steps = int(self._steps[segments].sum(dtype=np.int64))
        self._discarded[DISCARD_REASONS.index(reason)] += steps
        self._started[0] -= segments.size
        np.subtract.at(self._env_started, self._environment[segments], 1)
        self._state[segments] = FREE
        self._released[0] += 1
