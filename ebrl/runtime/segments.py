"""Who owns which segment, and whether another may be started.

Invariants: a segment is in one state with one owner, free → filling (a simulate worker) → ready →
training (the learner) → free. The states in the slab are the only truth: no list and no queue
beside them, so whatever dies in between, the states still say what is where. Every change of owner
happens under the slab's lock, wholly or not at all (`books`), together with what it does to the
ledger: steps leave a worker's hands, are trained on or are thrown away, in the same change.

Admission (AReaL's bound, in segments): with B segments a batch and the policy at version v, at most
(η + v + 1)·B segments have been started. So what is generated can be trained within η versions;
what a straggler still delivers too late is thrown away, and counted. With η = 0 each environment
starts the same number a version, which fixes the composition of the batches.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.layout import DISCARD_REASONS, PRODUCED
from ebrl.runtime.books import Books, Cells, Change
from ebrl.runtime.slab import Slab

Reason = Literal[
    "stale", "interrupted", "worker-lost", "environment-failed", "learner-lost", "diverged"
]


# Plain numbers: they are compared with arrays on the hot path, where an enum's look-up costs more.
FREE, FILLING, READY, TRAINING = range(4)  # of a segment

ABSENT = 0  # an environment that is not built yet
NEEDS_STEP = 1  # has an action: the simulate worker's turn
NEEDS_ACTION = 2  # has an observation: the generate worker's turn
PARKED = 3  # waits until admission lets it start a segment


class Segments:
    """The pool of segments, seen from any process; `worker` is the row of the one that looks."""

    def __init__(self, slab: Slab, *, per_batch: int, max_staleness: int, worker: int = 0) -> None:
        self._books = Books(slab)
        self._handed = Cells.HANDED + worker
        self._produced = slab["produced"]
        self._state = slab["segment/state"]
        self._environment = slab["segment/environment"]
        self._order = slab["segment/order"]
        self._steps = slab["steps"]
        self._ends = (slab["terminated"], slab["truncated"])
        self._version_of = slab["version"]
        self._started = slab["started"]
        self._released = slab["released"]
        self._weights_version = slab["weights/version"]
        self._env_started = slab["env/started"]
        self._staleness = slab["staleness"]
        self.per_batch = per_batch
        self.max_staleness = max_staleness
        self.per_environment = per_batch // len(self._env_started) if max_staleness == 0 else None

    # -- the simulate worker's side ----------------------------------------------------------------

    def start(self, environment: int) -> int | None:
        """A free segment for this environment, or None while admission says no."""
        with self._books as books:
            version, started = books[Cells.VERSION], books[Cells.STARTED]
            if self.per_environment is not None:
                if self._env_started[environment] >= self.per_environment * (version + 1):
                    return None
            elif started >= (self.max_staleness + version + 1) * self.per_batch:
                return None
            free = np.flatnonzero(self._state == FREE)
            if free.size == 0:
                return None
            segment = int(free[0])
            self._steps[segment] = 0
            for flags in self._ends:  # written again only where an episode ends
                flags[segment] = False
            self._environment[segment] = environment
            order = books[Cells.ORDER]
            self._order[segment] = order
            changes = ((Cells.STARTED, started + 1), (Cells.ORDER, order + 1))
            books.enter(FILLING, free[:1], changes, quota=1)
        return segment

    def finish(self, segment: int) -> bool:
        """Hand a full segment to the learner; says whether a whole batch is ready now."""
        only = np.array([segment])
        steps = self._steps_in(only)
        with self._books as books:
            change = (self._handed, books[self._handed] + steps)
            books.enter(READY, only, (change,))
            ready = int(np.count_nonzero(self._state == READY))
        return ready >= self.per_batch

    def abandon(self, segment: int, reason: Reason) -> int:
        """Throw away what is being filled, and count it; returns the steps."""
        only = np.array([segment])
        with self._books as books:
            steps = self._steps_in(only)
            self._throw_away(only, reason, steps, (self._handed, books[self._handed] + steps))
        return steps

    # -- the learner's side ------------------------------------------------------------------------

    def take(self, version: int, headroom: int | None = None) -> NDArray[np.int64] | None:
        """A batch to train from `version`, oldest first, or None while there are too few.

        Segments whose oldest step is more than η versions behind are thrown away here: this is the
        moment of training, so time spent in the queue counts.

        `headroom`: segments that will be started while this batch is trained on. As long as
        admission leaves more than that, nobody loses by waiting for the last segments that this
        update would make stale. None: never wait.
        """
        with self._books as books:
            ready = np.flatnonzero(self._state == READY)
            stale = ready[version - self.oldest_version(ready) > self.max_staleness]
            if stale.size:
                self._throw_away(stale, "stale", self._steps_in(stale))
                ready = np.setdiff1d(ready, stale)
            if ready.size < self.per_batch:
                return None
            room = (self.max_staleness + version + 1) * self.per_batch - books[Cells.STARTED]
            if headroom is not None and room > headroom and self._ageing(version):
                return None
            order = self._order[ready]
            if self.per_environment is not None:  # the same batch, row by row, in every run
                chosen = ready[np.lexsort((order, self._environment[ready]))][: self.per_batch]
            else:
                chosen = ready[np.argsort(order)][: self.per_batch]
            self._state[chosen] = TRAINING
        return chosen

    def _ageing(self, version: int) -> bool:
        """Is anything being filled that would be too old for the version after this one?"""
        filling = np.flatnonzero(self._state == FILLING)
        begun = filling[self._steps[filling].any(axis=1)]
        return bool(np.any(version - self.oldest_version(begun) >= self.max_staleness))

    def commit(
        self,
        segments: NDArray[np.int64],
        *,
        version: int,
        trained: int,
        staleness: tuple[int, int, int],
    ) -> None:
        """The update that took them has made `version`, whose weights lie in their buffer: publish
        it, count `trained` steps and their `staleness` (sum, steps, max), free the segments.
        """
        total, count, most = staleness
        with self._books as books:
            at = Cells.STALENESS
            changes: list[Change] = [
                (Cells.VERSION, version),
                (Cells.TRAINED, books[Cells.TRAINED] + trained),
                (at, books[at] + total),
                (at + 1, books[at + 1] + count),
                (at + 2, max(books[at + 2], most)),
                (Cells.RELEASED, books[Cells.RELEASED] + 1),
            ]
            books.enter(FREE, segments, changes)

    def release(self, segments: NDArray[np.int64]) -> None:
        """Free again, without a word in the ledger."""
        with self._books as books:
            books.enter(FREE, segments, ((Cells.RELEASED, books[Cells.RELEASED] + 1),))

    @property
    def openings(self) -> int:
        """Grows whenever `start` may say yes where it said no: segments freed, a new version."""
        return int(self._released[0]) + int(self._weights_version[0])

    # -- anybody's ---------------------------------------------------------------------------------

    def discard(self, segments: NDArray[np.int64], reason: Reason) -> None:
        """Throw away segments that have left their worker's hands, and count their steps;
        admission may start others in their place.
        """
        with self._books:
            self._throw_away(segments, reason, self._steps_in(segments))

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
        return self._steps_in(np.flatnonzero(self._state != FREE))

    # -- after a death: the supervisor's side ----------------------------------------------------

    def reclaim(self, worker: int, first: int, last: int, reason: Reason) -> int:
        """A simulate worker is dead: throw away what it was filling; returns the steps lost.

        Counted is what it said it had produced and never handed over, not what lies in the cells:
        it may have died between the two.
        """
        with self._books as books:
            cell, produced = Cells.HANDED + worker, int(self._produced[worker, PRODUCED])
            steps = produced - books[cell]
            self._throw_away(self.of_environments(first, last), reason, steps, (cell, produced))
        return steps

    def give_back(self) -> int:
        """The learner is dead: what it was training on waits for the next; returns the segments."""
        with self._books:
            theirs = np.flatnonzero(self._state == TRAINING)
            self._state[theirs] = READY
        return int(theirs.size)

    def settle(self) -> None:
        """Finish what a dead holder of the lock has marked."""
        with self._books:
            pass

    def forget(self, steps: int) -> None:
        """Of what was trained on, `steps` are lost with the learner."""
        with self._books as books:
            lost = Cells.DISCARDED + DISCARD_REASONS.index("learner-lost")
            changes = (
                (Cells.TRAINED, books[Cells.TRAINED] - steps),
                (lost, books[lost] + steps),
                (Cells.RELEASED, books[Cells.RELEASED] + 1),
            )
            books.enter(FREE, np.empty(0, np.int64), changes)

    def _throw_away(
        self, segments: NDArray[np.int64], reason: Reason, steps: int, *more: Change
    ) -> None:
        books, cell = self._books, Cells.DISCARDED + DISCARD_REASONS.index(reason)
        changes = (
            (cell, books[cell] + steps),
            (Cells.STARTED, books[Cells.STARTED] - segments.size),
            (Cells.RELEASED, books[Cells.RELEASED] + 1),
            *more,
        )
        books.enter(FREE, segments, changes, quota=-1)

    def _steps_in(self, segments: NDArray[np.int64]) -> int:
        return int(self._steps[segments].sum(dtype=np.int64))
