"""A learner that holds back until the data is as old as the staleness bound allows.

Where simulation is the bottleneck the learner waits for data, and what it trains on is nearly new,
whatever the bound. To see what stale data does to learning, this one sleeps before it trains:
longer while the batch is fresher than asked, shorter otherwise. EBRL_HELD names the staleness to
reach, in versions; without it nothing is held back, so profiles stay true.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from ebrl.stages import PPO
from ebrl.stages.protocols import Batch

HELD = "EBRL_HELD"
LONGEST_S = 4.0
GROW, SHRINK = 1.25, 0.97


class HeldPPO(PPO):
    """PPO whose batches are about EBRL_HELD versions old."""

    def build(self, *args: Any, **options: Any) -> Any:
        return _Held(super().build(*args, **options), float(os.environ.get(HELD) or 0))


class _Held:
    """A learner's body that may wait before it updates."""

    def __init__(self, body: Any, asked: float) -> None:
        self._body, self._asked = body, asked
        self._hold_s = 0.05

    def update(self, batch: Batch, should_stop: Callable[[], bool]) -> dict[str, float]:
        if self._asked > 0:
            steps = batch.steps[batch.segment]
            behind = batch.trained_version - batch.version[batch.segment]
            age = float((behind * steps).sum() / max(1, int(steps.sum())))
            factor = GROW if age < 0.95 * self._asked else SHRINK
            self._hold_s = min(LONGEST_S, self._hold_s * factor)
            until = time.monotonic() + self._hold_s
            while time.monotonic() < until and not should_stop():
                time.sleep(0.02)
        metrics: dict[str, float] = self._body.update(batch, should_stop)
        return metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)
