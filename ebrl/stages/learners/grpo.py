"""GRPO (Shao et al. 2024, "DeepSeekMath"): advantages from a group of episodes that began alike.

    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)      for every decision of episode i,

R_i the sum of the episode's rewards, j over the episodes of the batch with the same first
observation (environments of a group are reset with the same seeds). There is no critic. A group
whose episodes all came to the same has advantage zero: nothing is to be learnt from it, and nothing
is divided by its missing spread. The objective is that of PPO, decoupled.

Every decision counts alike (Liu et al. 2025, "Dr. GRPO"); with `by_episode` every episode does, as
in the first paper, so that long ones are not heard more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ebrl.stages.learners.ppo import PPOBody
from ebrl.stages.learners.returns import F32, Decisions
from ebrl.stages.protocols import Batch

if TYPE_CHECKING:
    from ebrl.stages.algorithms import GRPO

EPS = 1e-6


class GRPOBody(PPOBody):
    """`protocols.LearnerBody` of `GRPO`. Each segment holds one episode, from its beginning."""

    settings: GRPO

    def _advantages(
        self, batch: Batch, given: Decisions, value: F32, weight: F32
    ) -> tuple[F32, F32, F32]:
        """Advantages, value targets (there is no critic: the value itself) and weights [N, T]."""
        total = given.reward.sum(1, dtype=np.float32)
        advantage = in_groups(total, beginnings(batch))
        if self.settings.by_episode:
            length = np.maximum(given.valid.sum(1), 1)
            advantage = advantage * (length.mean() / length)
        spread = (advantage[:, None] * given.valid).astype(np.float32)
        return spread, value[:, :-1], weight


def beginnings(batch: Batch) -> NDArray[np.int64]:
    """The group of each segment [N]: equal where the first observations are."""
    keys = [
        b"".join(array[index, 0].tobytes() for array in batch.obs.values())
        for index in batch.segment
    ]
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def in_groups(total: F32, group: NDArray[np.int64]) -> F32:
    """Episodes' returns [N], less the mean of their group, over its spread."""
    count = np.bincount(group)
    mean = np.bincount(group, total) / count
    away = total - mean[group]
    spread = np.sqrt(np.bincount(group, away * away) / count)
    found: F32 = (away / (spread[group] + EPS)).astype(np.float32)
    return found
