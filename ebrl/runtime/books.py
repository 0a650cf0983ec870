"""The slab's lock, and changes under it that happen wholly or not at all.

Invariant: whoever holds the lock may be killed between any two instructions, and the books still
agree. A change is first written down whole (new states, new values, not differences), then marked,
then carried out, then unmarked. Carrying it out twice does no harm, so the next one to take the
lock finishes what a dead holder has marked; what was not marked has not happened.
"""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.layout import DISCARD_REASONS, PRODUCED_HANDED
from ebrl.runtime.slab import Array, Slab

Change = tuple[int, int]  # a cell, see `Cells`, and its new value
MARK, COUNT, CELLS, FIRST = range(4)  # the head of the journal; pairs of `Change` follow


class Cells:
    """Numbers of the counters that a change may set: one machine word each."""

    STARTED, ORDER, RELEASED, TRAINED, VERSION = range(5)
    STALENESS = 5  # and the two after it
    DISCARDED = 8  # one a reason
    HANDED = DISCARDED + len(DISCARD_REASONS)  # one a worker


class Books:
    """`with books:` holds the lock between processes; `books.enter(...)` makes a change."""

    def __init__(self, slab: Slab) -> None:
        self._fd = slab.fd
        self._head = slab["journal"].data
        self._segments = slab["journal/segments"]
        self._quota = slab["journal/started"]
        self._state = slab["segment/state"]
        self._environment = slab["segment/environment"]
        self._env_started = slab["env/started"]
        single = ("started", "order", "released", "trained", "weights/version")
        rows: list[Array] = [slab[name] for name in single]
        rows += [
            slab[name][i : i + 1] for name in ("staleness", "discarded") for i in _of(slab[name])
        ]
        produced = slab["produced"]
        rows += [produced[i, PRODUCED_HANDED : PRODUCED_HANDED + 1] for i in _of(produced)]
        self._cells = [row.data for row in rows]

    def __enter__(self) -> Books:
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1)
        if self._head[MARK]:
            self._carry_out()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1)

    def __getitem__(self, cell: int) -> int:
        value: int = self._cells[cell][0]
        return value

    def enter(
        self,
        state: int,
        segments: NDArray[np.int64],
        changes: Sequence[Change],
        *,
        quota: int = 0,
    ) -> None:
        """Put `segments` into `state` and set cells, as one change. The lock must be held.

        `quota` is added to what each segment's environment counts as started.
        """
        head, count = self._head, len(segments)
        self._segments[:count] = segments
        if quota:
            environments = self._environment[segments]
            started = self._env_started[environments]
            if count > 1:  # several of one environment: each says where they come to together
                quota_of = np.bincount(environments)[environments] * quota
                self._quota[:count] = started + quota_of
            else:
                self._quota[:count] = started + quota
        head[COUNT] = count
        head[CELLS] = -len(changes) - 1 if quota else len(changes)
        for place, (cell, value) in enumerate(changes):
            head[FIRST + 2 * place] = cell
            head[FIRST + 2 * place + 1] = value
        head[MARK] = state + 1
        self._carry_out()

    def _carry_out(self) -> None:
        head = self._head
        count, pairs = head[COUNT], head[CELLS]
        segments = self._segments[:count]
        if pairs < 0:
            pairs = -pairs - 1
            self._env_started[self._environment[segments]] = self._quota[:count]
        for place in range(FIRST, FIRST + 2 * pairs, 2):
            self._cells[head[place]][0] = head[place + 1]
        self._state[segments] = head[MARK] - 1
        head[MARK] = 0


def _of(array: Array) -> range:
    return range(len(array))
