"""Time over quota and batch, interpolated between points that lie on a grid or nearly so.

Each quota that was measured is a level, with a time for every batch: log-log linear between its
points, by a `Law` beyond them. Between levels throughput is linear in the quota; past the first and
the last one the law goes on. Invariant: at monotone points it is exact, and on a full grid time
never falls with the batch nor rises with the quota.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.beyond import Law
from ebrl.planner.profile import STANDING, Point

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Level:
    """The points of one quota, over the batch."""

    def __init__(self, quota: float, points: Mapping[int, Point]) -> None:
        ordered = [points[batch] for batch in sorted(points)]
        self.quota = quota
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

    def contains(self, b: Floats) -> Bools:
        return np.asarray((b >= self.batch[0]) & (b <= self.batch[-1]))

    def at(self, b: Floats, law: Law) -> tuple[Floats, Floats, Floats, Ints]:
        """Median, p95, bytes, and the rank of the weakest point that each rests on."""
        near = np.clip(b, self.batch[0], self.batch[-1])
        x, factor = np.log(near), law.over_batch(self.quota, b, near)
        median = np.exp(np.interp(x, self.log_batch, self.log_median)) * factor
        p95 = np.exp(np.interp(x, self.log_batch, self.log_p95)) * factor
        resident = law.memory(np.interp(near, self.batch, self.bytes), b, near)
        upper = np.searchsorted(self.batch, near)
        lower = np.where(self.batch[upper] <= near, upper, np.maximum(upper - 1, 0))
        return median, p95, resident, np.maximum(self.rank[lower], self.rank[upper])


class Surface:
    """Levels over the quota. `through_origin`: below the least, throughput is in proportion."""

    def __init__(
        self, points: Mapping[tuple[float, int], Point], law: Law, *, through_origin: bool
    ) -> None:
        by_quota: dict[float, dict[int, Point]] = {}
        for (quota, batch), point in points.items():
            by_quota.setdefault(quota, {})[batch] = point
        self.quota = np.array(sorted(by_quota))
        self.levels = [Level(quota, by_quota[quota]) for quota in sorted(by_quota)]
        self.law, self.through_origin = law, through_origin
        self.first = np.array([level.batch[0] for level in self.levels])
        self.last = np.array([level.batch[-1] for level in self.levels])

    def _around(self, q: Floats) -> tuple[Ints, Ints]:
        """The levels at or below and at or above each quota, the outermost where there is none."""
        upper = np.minimum(np.searchsorted(self.quota, q), self.quota.size - 1)
        exact = self.quota[upper] <= q
        return np.where(exact, upper, np.maximum(upper - 1, 0)), upper

    def contains(self, q: Floats, b: Floats) -> Bools:
        """Do points enclose the place?"""
        lower, upper = self._around(q)
        least = 0.0 if self.through_origin else self.quota[0]
        batch = (b >= np.maximum(self.first[lower], self.first[upper])) & (
            b <= np.minimum(self.last[lower], self.last[upper])
        )
        return np.asarray((q >= least) & (q <= self.quota[-1]) & batch)

    def at(self, q: Floats, b: Floats) -> tuple[Floats, Floats, Ints, Ints]:
        """Median, p95, bytes, and the rank of the weakest point that each rests on."""
        lower, upper = self._around(q)
        median, p95, resident, rank = self._levels(b)
        column = np.arange(q.size)
        low_q, high_q = self.quota[lower], self.quota[upper]
        between = high_q > low_q
        weight = np.where(between, (q - low_q) / np.where(between, high_q - low_q, 1.0), 0.0)
        # Throughput is linear in the quota, so time is the weighted harmonic mean.
        time = 1.0 / ((1 - weight) / median[lower, column] + weight / median[upper, column])
        tail = 1.0 / ((1 - weight) / p95[lower, column] + weight / p95[upper, column])
        factor = self._past(q, b)
        held = np.maximum(resident[lower, column], resident[upper, column])
        standing = np.maximum(rank[lower, column], rank[upper, column])
        tail = np.maximum(tail, time)
        return time * factor, tail * factor, np.ceil(held).astype(np.int64), standing

    def _past(self, q: Floats, b: Floats) -> Floats:
        """Time past the first and the last level over that at the level."""
        first, last = float(self.quota[0]), float(self.quota[-1])
        factor = np.ones(q.size)
        below, above = q < first, q > last
        if self.through_origin:
            factor[below] = first / q[below]
        else:
            factor[below] = self.law.over_quota(q[below], first, b[below])
        factor[above] = self.law.over_quota(q[above], last, b[above])
        return factor

    def _levels(self, b: Floats) -> tuple[Floats, Floats, Floats, Ints]:
        """Each level at each batch [levels, queries], the higher levels never slower.

        Part of a quota may be left idle, so a level that is slower than one below it takes that
        one's time and standing. Only where it is known and the one below is not, the latter yields.
        """
        rows = [level.at(b, self.law) for level in self.levels]
        median = np.stack([row[0] for row in rows])
        p95 = np.stack([row[1] for row in rows])
        resident = np.stack([row[2] for row in rows])
        rank = np.stack([row[3] for row in rows])
        known = np.stack([level.contains(b) for level in self.levels])
        for i in range(len(rows) - 1, 0, -1):
            guess = known[i] & ~known[i - 1]
            median[i - 1] = np.where(guess, np.maximum(median[i - 1], median[i]), median[i - 1])
        for i in range(1, len(rows)):
            slower = median[i] > median[i - 1]
            rank[i] = np.where(slower, np.maximum(rank[i], rank[i - 1]), rank[i])
            median[i] = np.where(slower, median[i - 1], median[i])
            p95[i] = np.maximum(median[i], np.minimum(p95[i], p95[i - 1]))
        return median, np.maximum(p95, median), resident, rank

    def describe(self, on_cores: bool) -> str:
        """The hull in words."""
        unit = "cores" if on_cores else "SMs"
        quotas = f"{self.quota[0]:g}" + (f" to {self.quota[-1]:g}" if self.quota.size > 1 else "")
        batches = f"{self.first.min():g} to {self.last.max():g}"
        return f"known: {quotas} {unit}, batch {batches}"
