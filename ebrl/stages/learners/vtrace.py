"""V-trace (Espeholt et al. 2018): value targets for data of another policy, within segments.

    delta_t = rho_t (r_t + gamma_t V_{t+1} - V_t),          rho_t = min(rho_clip, pi / mu)
    v_t     = V_t + delta_t + gamma_t c_t (v_{t+1} - V_{t+1}),  c_t = lambda min(c_clip, pi / mu)
    A_t     = r_t + gamma_t v_{t+1} - V_t

The advantage comes without its factor rho_t, because the decoupled objective weights each row with
pi_prox / pi_behav itself. Traces are cut as in `gae`.
"""

from __future__ import annotations

import numpy as np

from ebrl.stages.learners.returns import F32, Decisions


def vtrace(
    given: Decisions,
    value: F32,
    ratio: F32,
    *,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
    trace_lambda: float = 1.0,
) -> tuple[F32, F32]:
    """Advantages and value targets [N, T]. `ratio` is pi / mu of each decision."""
    rho = np.minimum(np.float32(rho_clip), ratio)
    c = np.float32(trace_lambda) * np.minimum(np.float32(c_clip), ratio)
    follows = value[:, 1:]
    delta = rho * (given.reward + given.discount * follows - value[:, :-1])
    carry = given.discount * given.runs_on * c
    excess = np.empty_like(delta)  # v_t - V_t
    following = np.zeros(len(delta), np.float32)
    for t in range(delta.shape[1] - 1, -1, -1):
        following = delta[:, t] + carry[:, t] * following
        excess[:, t] = following
    excess *= given.valid
    # v_{t+1} is the bootstrap value after an ended row and after the last one.
    behind = np.zeros_like(excess)
    behind[:, :-1] = excess[:, 1:]
    target = given.reward + given.discount * (follows + given.runs_on * behind)
    advantage = (target - value[:, :-1]) * given.valid
    return advantage, excess + value[:, :-1]
