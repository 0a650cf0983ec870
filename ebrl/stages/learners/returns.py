"""What GAE and V-trace share: rewards of a chunk as one, and where a trace may run on.

All arrays are [N, T] (values [N, T + 1]) over N segments of T decisions; see `protocols` for the
row after an ended episode, which holds its final observation and no decision (`steps == 0`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Bools = NDArray[np.bool_]


class Decisions(NamedTuple):
    """Segments as a learner's recursions read them."""

    reward: F32  # discounted within the chunk
    discount: F32  # of the value that follows: gamma per executed step; 0 where nothing follows
    runs_on: F32  # 1 where the next row is the same episode's next decision
    valid: Bools  # a decision was taken


def decisions(
    reward: F32,
    steps: NDArray[np.uint8],
    terminated: Bools,
    truncated: Bools,
    *,
    gamma: float,
    terminal: Literal["zero", "bootstrap", "absorb"] = "zero",
) -> Decisions:
    """Rewards [N, T, k] and the executed `steps` [N, T] → one reward and discount a decision."""
    k = reward.shape[-1]
    valid = steps > 0
    executed = np.arange(k) < steps[..., None]
    weights = np.where(executed, np.float32(gamma) ** np.arange(k, dtype=np.float32), 0)
    total = np.where(executed, reward * weights, 0).sum(-1, dtype=np.float32)
    discount = np.float32(gamma) ** steps.astype(np.float32)
    if terminal != "bootstrap":
        discount = np.where(terminated, np.float32(0), discount)
    if terminal == "absorb":
        last = np.take_along_axis(reward, np.maximum(steps, 1)[..., None].astype(np.int64) - 1, -1)
        # gamma^steps * r / (1 - gamma): the last reward for ever, from the step after it.
        tail = np.float32(gamma) ** steps.astype(np.float32) / (1 - gamma) * last[..., 0]
        total = total + np.where(terminated & valid, tail, 0)
    ended = terminated | truncated
    return Decisions(
        reward=np.where(valid, total, 0).astype(np.float32),
        discount=np.where(valid, discount, 0).astype(np.float32),
        runs_on=(valid & ~ended).astype(np.float32),
        valid=valid,
    )
