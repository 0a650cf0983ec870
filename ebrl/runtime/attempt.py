"""One update, tried: what it made of the weights, or why it must not count.

Invariants: weights that are not finite are never published, kept or saved; the update that made
them is left out, its batch thrown away and counted. A body that says so is then in any state, and
must be given back the one before. Left out too often, it is the learner that is wrong.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ebrl.errors import DivergedError, RunError
from ebrl.runtime.strikes import WINDOW, WINDOW_S
from ebrl.stages.protocols import Batch, LearnerBody

HINT = "a smaller learning rate or max_grad_norm, or a reward_scale, keeps it finite"


def attempt(
    body: LearnerBody,
    batch: Batch,
    should_stop: Callable[[], bool],
    into: NDArray[np.float32],
) -> tuple[dict[str, float], str]:
    """Update on `batch` and write the weights `into` a buffer; (metrics, what is not finite).

    The second is empty where all is well.
    """
    try:
        metrics = body.update(batch, should_stop)
    except DivergedError as error:
        return {}, error.diagnostics[0].message
    body.write_weights(into)
    if not np.isfinite(into.sum(dtype=np.float64)):  # which finite float32 cannot overflow
        bad = into.size - int(np.isfinite(into).sum())
        return metrics, f"the update made {bad:,} of {into.size:,} weights non-finite"
    return metrics, ""


class LeftOut:
    """The updates that did not count, and whether to go on trying."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._times: deque[float] = deque(maxlen=WINDOW * patience)
        self._in_a_row = 0

    def counted(self) -> None:
        """An update was good."""
        self._in_a_row = 0

    def add(self, stage: str, version: int, why: str) -> None:
        """One was not; RunError `diverged` where trying again would not help."""
        now = time.monotonic()
        self._times.append(now)
        self._in_a_row += 1
        often = len(self._times) == self._times.maxlen and now - self._times[0] < WINDOW_S
        if self._in_a_row < self._patience and not often:
            return
        times = (
            f"{self._in_a_row} times in a row, each on other data"
            if self._in_a_row >= self._patience
            else f"{len(self._times)} times within {now - self._times[0]:.0f} s"
        )
        raise RunError(
            "diverged",
            f"the update from version {version} was left out {times}; the last time: {why}",
            where=f"stage `{stage}`",
            hint=f"{HINT}; the last checkpoint is from before it, and --resume goes on from there",
        )
