"""The stages together, in one process: CartPole is learned within seconds."""

from __future__ import annotations

import numpy as np

from ebrl.stages import PPO, Gymnasium, MLPPolicy
from tests.stages.loop import learn


def test_cartpole_is_learned_from_actions_one_version_old() -> None:
    learner = PPO(
        horizon=32,
        batch=1024,
        epochs=10,
        minibatch=256,
        learning_rate=1e-3,
        gamma=0.98,
        gae_lambda=0.8,
    )
    begun = None
    for progress in learn(
        Gymnasium("CartPole-v1"), MLPPolicy(), learner, envs=32, steps=60_000, seed=1, lag=1
    ):
        mean = float(np.mean(progress.returns))
        if begun is None and len(progress.returns) >= 20:
            begun = mean
        if len(progress.returns) == 100 and mean > 150:
            break
    assert begun is not None
    assert begun < 50
    assert mean > 150
