"""Generalised advantage estimation (Schulman et al. 2016), within segments.

    delta_t = r_t + gamma_t V(obs[t+1]) - V(obs[t])
    A_t     = delta_t + gamma_t lambda A_{t+1}      (A_{t+1} = 0 after an ended row and at the end)

`V(obs[t+1])` is the value of the final observation where an episode was truncated, and gamma_t is
zero where it terminated; nothing is taken from the next episode.
"""

from __future__ import annotations

import numpy as np

from ebrl.stages.learners.returns import F32, Decisions


def gae(given: Decisions, value: F32, gae_lambda: float) -> tuple[F32, F32]:
    """Advantages and value targets [N, T]; zero (targets: the value) where there is no decision."""
    delta = given.reward + given.discount * value[:, 1:] - value[:, :-1]
    carry = given.discount * given.runs_on * np.float32(gae_lambda)
    advantage = np.empty_like(delta)
    following = np.zeros(len(delta), np.float32)
    for t in range(delta.shape[1] - 1, -1, -1):
        following = delta[:, t] + carry[:, t] * following
        advantage[:, t] = following
        # A row without a decision lies after an ended one, whose carry is zero already.
    advantage *= given.valid
    return advantage, advantage + value[:, :-1]
