"""How stage times vary: one stream of random numbers a replica, so that what one draws never
depends on what another does.

A stage time is log-normal with the profile's median and 95th percentile, so its logarithm has the
standard deviation σ = ln(p95 / median) / 1.645. Invariant: equal seeds give equal draws, replica by
replica, whatever the order of events.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.foresight.conditions import Conditions

Z95 = 1.6448536269514722  # of the standard normal
BLOCK = 256


def sigma(median_s: float, p95_s: float, conditions: Conditions) -> float:
    """Standard deviation of the logarithm of a time; an assumed spread only where none is known."""
    if not conditions.vary:
        return 0.0
    ratio = p95_s / median_s if median_s > 0 else 1.0
    if ratio <= 1.0 and conditions.spread is not None:
        ratio = 1.0 + conditions.spread
    return math.log(ratio) / Z95 if ratio > 1.0 else 0.0


class Draws:
    """Factors on the median time, drawn in blocks. `vary`: is there anything to draw?"""

    __slots__ = ("_at", "_chance", "_factor", "_generator", "_sigma", "_sums", "vary")

    def __init__(
        self, seed: int, place: Sequence[int], spread: float, conditions: Conditions
    ) -> None:
        self._sigma = spread
        self._chance = conditions.stragglers if conditions.vary else 0.0
        self._factor = conditions.straggler_factor
        self.vary = spread > 0 or self._chance > 0
        self._generator: np.random.Generator | None = None
        if self.vary:
            sequence = np.random.SeedSequence(seed, spawn_key=tuple(place))
            self._generator = np.random.Generator(np.random.PCG64(sequence))
        self._sums: list[float] = [0.0]
        self._at = 0

    def total(self, count: int) -> float:
        """The sum of `count` factors: `count` itself where nothing varies."""
        if not self.vary:
            return float(count)
        begin, end = self._at, self._at + count
        if end >= len(self._sums):
            block = self.factors(max(BLOCK, count))
            self._sums = [0.0, *np.cumsum(block).tolist()]
            begin, end = 0, count
        self._at = end
        return self._sums[end] - self._sums[begin]

    def factors(self, count: int) -> NDArray[np.float64]:
        """So many factors, anew."""
        if self._generator is None:
            return np.ones(count)
        found = np.exp(self._sigma * self._generator.standard_normal(count))
        if self._chance > 0:
            found[self._generator.random(count) < self._chance] *= self._factor
        return found


class Lengths:
    """Lengths of episodes in environment steps; `limit` None and no mean: they never end."""

    __slots__ = ("_generator", "_limit", "_stop", "ends")

    def __init__(
        self, seed: int, place: Sequence[int], limit: int | None, conditions: Conditions
    ) -> None:
        self._limit = limit or 2**60
        mean = conditions.episode_steps
        self._stop = 1.0 / mean if mean is not None and mean > 1 else 0.0
        self.ends = conditions.episodes and (limit is not None or self._stop > 0)
        self._generator: np.random.Generator | None = None
        if self.ends and self._stop > 0:
            sequence = np.random.SeedSequence(seed, spawn_key=tuple(place))
            self._generator = np.random.Generator(np.random.PCG64(sequence))

    def next(self) -> int:
        if self._generator is None:
            return self._limit if self.ends else 2**60
        return min(self._limit, int(self._generator.geometric(self._stop)))
