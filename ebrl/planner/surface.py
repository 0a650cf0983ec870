"""Time over quota and batch, interpolated between points that lie on a grid or nearly so.

Invariant: `at` is called inside the hull only; there it is exact at monotone points, does not fall
with the batch, and throughput does not fall with the quota.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.profile import STANDING, Point

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Level:
    """The points of one quota, over the batch: log-log linear between them."""

    def __init__(self, points: Mapping[int, Point]) -> None:
        ordered = [points[batch] for batch in sorted(points)]
        self.batch = np.array([point.batch for point in ordered], dtype=np.float64)
        self.log_batch = np.log(self.batch)
        median = np.array([point.median_s for point in ordered])
        p95 = np.array([max(point.p95_s, point.median_s) for point in ordered])
        rank = np.array([STANDING[point.source] for point in ordered], dtype=np.int64)
        # A batch may be padded: none takes longer than a larger one, whose standing it then has.
        for i in range(len(ordered) - 2, -1, -1):
            if median[i + 1] < median[i]:
                median[i], rank[i] = median[i + 1], max(rank[i], rank[i + 1])
            p95[i] = max(median[i], min(p95[i], p95[i + 1]))
        self.log_median, self.log_p95, self.rank = np.log(median), np.log(p95), rank
        resident = np.array([point.bytes for point in ordered], dtype=np.float64)
        self.bytes = np.maximum.accumulate(resident)

    def contains(self, b: Floats) -> NDArray[np.bool_]:
        return np.asarray((b >= self.batch[0]) & (b <= self.batch[-1]))

    def at(self, b: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        """Median, p95, bytes, rank; at batches beyond its own, the values at its ends."""
        x = np.log(b)
        median = np.exp(np.interp(x, self.log_batch, self.log_median))
        p95 = np.exp(np.interp(x, self.log_batch, self.log_p95))
        resident = np.interp(b, self.batch, self.bytes)
        upper = np.minimum(np.searchsorted(self.batch, b), self.batch.size - 1)
        exact = self.batch[upper] <= b
        lower = np.where(exact, upper, np.maximum(upper - 1, 0))
        return median, p95, resident, np.maximum(self.rank[lower], self.rank[upper])


class Surface:
    """Levels over the quota. `through_origin`: below the least, throughput is in proportion."""

    def __init__(self, points: Mapping[tuple[float, int], Point], *, through_origin: bool) -> None:
        by_quota: dict[float, dict[int, Point]] = {}
        for (quota, batch), point in points.items():
            by_quota.setdefault(quota, {})[batch] = point
        self.quota = np.array(sorted(by_quota))
        self.levels = [Level(by_quota[quota]) for quota in self.quota]
        self.through_origin = through_origin
        self.first = np.array([level.batch[0] for level in self.levels])
        self.last = np.array([level.batch[-1] for level in self.levels])

    def _around(self, q: Floats) -> tuple[Ints, Ints]:
        """The levels at or below and at or above each quota."""
        upper = np.minimum(np.searchsorted(self.quota, q), self.quota.size - 1)
        exact = self.quota[upper] <= q
        return np.where(exact, upper, np.maximum(upper - 1, 0)), upper

    def contains(self, q: Floats, b: Floats) -> NDArray[np.bool_]:
        """Do points enclose the place?"""
        lower, upper = self._around(q)
        least = 0.0 if self.through_origin else self.quota[0]
        batch = (b >= np.maximum(self.first[lower], self.first[upper])) & (
            b <= np.minimum(self.last[lower], self.last[upper])
        )
        return np.asarray((q >= least) & (q <= self.quota[-1]) & batch)

    def clamp(self, q: Floats, b: Floats) -> tuple[Floats, Floats]:
        """The nearest place that `contains`; inside, the place itself."""
        least = 0.0 if self.through_origin else self.quota[0]
        near_q = np.clip(q, least, self.quota[-1])
        lower, upper = self._around(near_q)
        first = np.maximum(self.first[lower], self.first[upper])
        last = np.minimum(self.last[lower], self.last[upper])
        # Two levels without a batch in common enclose nothing: the lower one alone counts.
        apart = first > last
        near_q = np.where(apart, self.quota[lower], near_q)
        first = np.where(apart, self.first[lower], first)
        last = np.where(apart, self.last[lower], last)
        return near_q, np.clip(b, first, last)

    def at(self, q: Floats, b: Floats) -> tuple[Floats, Floats, Ints, Ints]:
        """Median, p95, bytes, rank at places inside the hull."""
        lower, upper = self._around(q)
        median, p95, resident, rank = self._levels(b)
        column = np.arange(q.size)
        low_q, high_q = self.quota[lower], self.quota[upper]
        width = np.where(high_q > low_q, high_q - low_q, 1.0)
        weight = np.where(high_q > low_q, (q - low_q) / width, 0.0).clip(0.0, 1.0)
        # Throughput is linear in the quota, so time is the weighted harmonic mean.
        time = 1.0 / ((1 - weight) / median[lower, column] + weight / median[upper, column])
        tail = 1.0 / ((1 - weight) / p95[lower, column] + weight / p95[upper, column])
        share = np.where(q < self.quota[0], self.quota[0] / q, 1.0)
        held = np.maximum(resident[lower, column], resident[upper, column])
        standing = np.where(
            weight > 0,
            np.maximum(rank[lower, column], rank[upper, column]),
            rank[lower, column],
        )
        tail = np.maximum(tail, time)
        return time * share, tail * share, np.ceil(held).astype(np.int64), standing

    def _levels(self, b: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        """Each level at each batch [levels, queries]; part of a quota may be left idle.

        So no level is slower than one below it that knows the batch, whose standing it then has.
        """
        rows = [level.at(b) for level in self.levels]
        median = np.stack([row[0] for row in rows])
        p95 = np.stack([row[1] for row in rows])
        resident = np.stack([row[2] for row in rows])
        rank = np.stack([row[3] for row in rows])
        for i in range(1, len(rows)):
            known = self.levels[i - 1].contains(b)
            slower = known & (median[i] > median[i - 1])
            rank[i] = np.where(slower, np.maximum(rank[i], rank[i - 1]), rank[i])
            median[i] = np.where(slower, median[i - 1], median[i])
            p95[i] = np.maximum(median[i], np.where(known, np.minimum(p95[i], p95[i - 1]), p95[i]))
        return median, p95, resident, rank

    def describe(self, on_cores: bool) -> str:
        """The hull in words."""
        unit = "cores" if on_cores else "SMs"
        quotas = f"{self.quota[0]:g}" + (f" to {self.quota[-1]:g}" if self.quota.size > 1 else "")
        batches = f"{self.first.min():g} to {self.last.max():g}"
        return f"measured: {quotas} {unit}, batch {batches}"
