"""When has a mean changed? Page's cumulative sums (1954), two-sided, in units of the noise.

    S⁺ ← max(0, S⁺ + z − k),   S⁻ ← max(0, S⁻ − z − k),   alarm when either exceeds h

with z the deviation from the mean in standard deviations, k half of the shift that matters, and h
from the average run length, the mean number of samples between false alarms. Siegmund's
approximation (Sequential Analysis, 1985) for one side:

    ARL = (exp(2k(h + 1.166)) − 2k(h + 1.166) − 1) / 2k²,   1/ARL = 1/ARL⁺ + 1/ARL⁻ for both

Real series have tails and memory: z is clipped, so that one bad sample is not a change, and the
noise is raised where neighbours are alike (first-order autocorrelation). Mean and noise are learnt
from the series itself, so they are uncertain at first: the noise is taken at the upper end of what
its samples allow, and k is raised by the standard error of the mean. Samples of an excursion belong
to what was learnt only when it has come back to nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

CLIP = 3.5  # standard deviations that one sample counts at most
LEAST_SIGMA = 0.01  # relative: nothing is steadier than this for long
MOST_MEMORY = 0.8  # of the autocorrelation that is corrected for
FEWEST = 10  # samples before anything is tested
REMEMBERED = 400  # samples that mean and noise are taken over, at most
CONFIRM = 1  # samples after an alarm, until its size is told
GUARD = 1.5  # standard errors of the mean that a change has to exceed


def average_run_length(k: float, h: float) -> float:
    """Samples between false alarms, both sides together (Siegmund)."""
    b = h + 1.166
    return (math.expm1(2 * k * b) - 2 * k * b) / (2 * k * k) / 2


@lru_cache(maxsize=1024)
def threshold(k: float, run_length: float) -> float:
    """h for this average run length, both sides together."""
    low, high = 0.0, 1.0
    while average_run_length(k, high) < run_length:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if average_run_length(k, middle) < run_length else (low, middle)
    return high


class Cusum:
    """One series. `shift` is the smallest change of its mean that matters; `run_length` the average
    number of samples between false alarms."""

    def __init__(self, *, shift: float, run_length: float) -> None:
        self._shift, self._run_length = shift, run_length
        self._quiet: deque[float] = deque(maxlen=REMEMBERED)
        self._excursion: list[float] = []  # samples since both sums were last zero
        self._up: list[float] = []  # samples since S⁺ was last zero
        self._down: list[float] = []
        self._sums = [0.0, 0.0]
        self._stale = True
        self._mean, self._sigma = 0.0, 1.0
        self.alarm = False
        self._alarmed = 0  # samples since then

    @property
    def settled(self) -> bool:
        """There is an alarm, and enough was seen since to say how far the mean has moved."""
        return self.alarm and self._alarmed >= CONFIRM

    @property
    def tested(self) -> int:
        """Samples that mean and noise are known from."""
        return len(self._quiet)

    @property
    def mean(self) -> float:
        self._learn()
        return self._mean

    @property
    def sigma(self) -> float:
        self._learn()
        return self._sigma

    def add(self, value: float) -> bool:
        """One sample; says whether there is an alarm, now or since the last `reset`."""
        self._alarmed += self.alarm
        if len(self._quiet) < FEWEST:
            self._quiet.append(value)
            self._stale = True
            return self.alarm
        k = min(1.0, self._shift / (2 * self.sigma)) + GUARD / math.sqrt(len(self._quiet))
        z = min(CLIP, max(-CLIP, (value - self.mean) / self.sigma))
        for side, (sign, run) in enumerate(((1.0, self._up), (-1.0, self._down))):
            self._sums[side] = max(0.0, self._sums[side] + sign * z - k)
            if self._sums[side] == 0.0:
                run.clear()
            else:
                run.append(value)
        self._excursion.append(value)
        if not self._up and not self._down:
            self._quiet.extend(self._excursion)
            self._excursion.clear()
            self._stale = True
        if max(self._sums) > threshold(round(k, 2), self._run_length):
            self.alarm = True
        return self.alarm

    def _learn(self) -> None:
        if self._stale:
            self._stale = False
            self._mean = float(np.mean(self._quiet)) if self._quiet else 0.0
            self._sigma = noise(self._quiet)

    @property
    def change(self) -> float:
        """How far the mean has moved since the excursion began (Page's estimate of when that was);
        0 without one. Of the later half of it: a sample may lie across the change, and what grows
        has grown since."""
        run = self._up if self._sums[0] >= self._sums[1] else self._down
        return float(np.median(run[len(run) // 2 :])) - self.mean if run else 0.0

    @property
    def level(self) -> float:
        """Where the series is now: the mean, and the change if there was an alarm."""
        return self.mean + (self.change if self.alarm else 0.0)

    def reset(self) -> None:
        """Learn anew what is normal."""
        self._quiet.clear()
        self._excursion.clear()
        self._stale = True
        self._up.clear()
        self._down.clear()
        self._sums = [0.0, 0.0]
        self.alarm = False
        self._alarmed = 0


def noise(values: Sequence[float]) -> float:
    """Standard deviation of the noise that cumulative sums of these have, at the upper end of what
    so few samples allow: sqrt((n − 1) / χ²) at 5 %, χ² by Wilson and Hilferty's approximation."""
    n = len(values)
    if n < 3:
        return 1.0
    series = np.asarray(values)
    centred = series - series.mean()
    spread = float(centred @ centred)
    memory = float(centred[1:] @ centred[:-1]) / spread if spread > 0 else 0.0
    memory = min(MOST_MEMORY, max(0.0, memory))
    f = n - 1
    chi = f * max(0.05, 1 - 2 / (9 * f) - 1.645 * math.sqrt(2 / (9 * f))) ** 3
    sigma = math.sqrt(spread / f)
    return max(LEAST_SIGMA, sigma * math.sqrt((1 + memory) / (1 - memory)) * math.sqrt(f / chi))
