"""Which checkpoint had the best return.

Invariant: `checkpoint/best` names one that is there, by a mean over enough episodes to be one.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from ebrl.runtime import checkpoint
from ebrl.runtime.messages import Saved
from ebrl.runtime.progress import Scores

FEW = 20  # episodes


class Best:
    """Told of each checkpoint as it is saved."""

    def __init__(self) -> None:
        self._return: float | None = None

    def saved(self, saved: Saved, scores: Scores) -> None:
        """Name it the best if it is; a disk that does not take that loses nothing else."""
        reward = scores.ep_rew_mean
        if reward is None or scores.episodes < FEW:
            return
        if self._return is None or reward > self._return:
            self._return = reward
            path = Path(saved.path)
            with contextlib.suppress(OSError):
                checkpoint.point(path.parent, checkpoint.BEST, path.name)
