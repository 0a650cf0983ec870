"""What was measured at one place, and how well it is known.

The unit of evidence is a slice, a stretch of a fraction of a second; its value is the median of its
timings. Slices of one place are spread over the whole measuring, so what drifts slowly (clocks,
caches, neighbours) is in their spread. The interval of the median comes from order statistics: of n
slices, the j-th smallest and the j-th largest hold the median between them with the probability
that a fair coin shows at least j heads and at least j tails in n throws. No distribution is
assumed; where n is too small for 95 % (n < 6), the range is widened by itself on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np

CONFIDENCE = 0.95
SYSTEMATIC = 0.01  # relative: what one process built anew differs by, beyond its slices' spread


class Place(NamedTuple):
    """A stage at a quota and a batch. `cores` of the host are whole; `sms` 0: on cores alone."""

    stage: str
    sms: int
    cores: int
    batch: int


class Interval(NamedTuple):
    """Seconds of one batch."""

    low: float
    middle: float
    high: float

    @property
    def width(self) -> float:
        """Half of it, relative to the middle."""
        return (self.high - self.low) / 2 / self.middle


class Tally(msgspec.Struct, kw_only=True):
    """Slices of one place in one company."""

    medians: list[float] = []
    tails: list[float] = []  # 95th percentile of each slice
    timings: int = 0
    bytes: int = 0
    device_bytes: int = 0

    def add(self, seconds: Sequence[float], held: int = 0, on_device: int = 0) -> None:
        """One slice's timings of one batch."""
        self.medians.append(float(np.median(seconds)))
        self.tails.append(float(np.quantile(seconds, 0.95)))
        self.timings += len(seconds)
        self.bytes = max(self.bytes, held)
        self.device_bytes = max(self.device_bytes, on_device)

    @property
    def slices(self) -> int:
        return len(self.medians)

    @property
    def median_s(self) -> float:
        return float(np.median(self.medians))

    @property
    def p95_s(self) -> float:
        """The worse of the slices' own tails and of the slices' spread; at least the median."""
        spread = float(np.quantile(self.medians, 0.95))
        return max(self.median_s, float(np.median(self.tails)), spread)

    def interval(self) -> Interval:
        """95 % of the median, and `SYSTEMATIC` beyond on both sides."""
        ordered = sorted(self.medians)
        middle = self.median_s
        j = order(len(ordered))
        if j:
            low, high = ordered[j - 1], ordered[-j]
        else:
            spread = ordered[-1] - ordered[0] if len(ordered) > 1 else middle
            low, high = max(ordered[0] - spread, middle / 3), ordered[-1] + spread
        return Interval(low * (1 - SYSTEMATIC), middle, high * (1 + SYSTEMATIC))


@lru_cache(maxsize=4096)
def order(n: int, confidence: float = CONFIDENCE) -> int:
    """The largest j such that [j-th smallest, j-th largest] of n holds the median with at least
    this probability; 0 where there is none."""
    found, outside = 0, 0.0
    for j in range(1, n // 2 + 1):
        outside += 2 * math.comb(n, j - 1) / 2**n
        if 1 - outside < confidence:
            break
        found = j
    return found
