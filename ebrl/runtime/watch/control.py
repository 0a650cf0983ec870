"""What a worker is told while it runs: a row of numbers in the slab, no message on the hot path.

A seqlock: the run makes the sequence odd, writes the values, makes it even; a worker looks at one
number a round, and takes the values when that is even, new, and the same after reading. Invariants:
one writer (the run), a worker never waits, and it acts on a whole row or not at all. A worker that
takes over a post finds the row and acts on it.
"""

from __future__ import annotations

from typing import NamedTuple

from ebrl.planner.layout import (
    CONTROL_ACTIVE,
    CONTROL_BATCH,
    CONTROL_GROUP,
    CONTROL_SEQUENCE,
    CONTROL_THREADS,
)
from ebrl.runtime.slab import Slab


class Settings(NamedTuple):
    """0 leaves a thing as the worker was started. `active`: how many of its environments start
    segments; `group`: how many it hands over at once; `batch`: the most that are answered at once.
    """

    batch: int = 0
    threads: int = 0
    group: int = 0
    active: int = 0


class Orders:
    """The worker's end."""

    def __init__(self, slab: Slab, worker: int) -> None:
        self._row = slab["control"][worker]
        self._seen = 0

    def news(self) -> Settings | None:
        """What is new, or None."""
        sequence = int(self._row[CONTROL_SEQUENCE])
        if sequence == self._seen or sequence % 2:
            return None
        row = self._row.copy()
        if int(self._row[CONTROL_SEQUENCE]) != sequence:
            return None
        self._seen = sequence
        return Settings(
            batch=int(row[CONTROL_BATCH]),
            threads=int(row[CONTROL_THREADS]),
            group=int(row[CONTROL_GROUP]),
            active=int(row[CONTROL_ACTIVE]),
        )


def tell(slab: Slab, worker: int, settings: Settings) -> None:
    """The run's end. The worker has it in its next round; ring its bell if it may be asleep."""
    row = slab["control"][worker]
    row[CONTROL_SEQUENCE] += 1
    row[CONTROL_BATCH] = settings.batch
    row[CONTROL_THREADS] = settings.threads
    row[CONTROL_GROUP] = settings.group
    row[CONTROL_ACTIVE] = settings.active
    row[CONTROL_SEQUENCE] += 1
