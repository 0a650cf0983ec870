"""A learner beside a batch that its own weights acted, for the tests of updates."""

from __future__ import annotations

from typing import Any

from ebrl.stages import PPO, CNNPolicy, MLPPolicy
from tests.stages.batches import (
    BOX,
    DISCRETE,
    PICTURE,
    VECTOR,
    build,
    environment,
    rollout,
    weights,
)


def never() -> bool:
    return False


def small(**more: Any) -> PPO:
    return PPO(**{"horizon": 8, "batch": 64, "epochs": 2, "minibatch": 16, **more})


KINDS = {
    "discrete": (DISCRETE, VECTOR, MLPPolicy(hidden=(16,))),
    "box": (BOX, VECTOR, MLPPolicy(hidden=(16,), normalise_obs=True)),
    "pictures": (BOX, PICTURE, CNNPolicy(channels=(4, 4, 4), features=8, hidden=(8,))),
}


def pair(kind: str, learner: PPO, seed: int = 0, lag: int = 0) -> tuple[Any, Any, Any]:
    """A learner and a batch whose actions came from its weights (`lag` updates ago)."""
    action, obs, policy = KINDS[kind]
    env = environment(action, obs)
    body = build(learner, policy, env, seed)
    actor = policy.build(env, seed=1, device="cpu")
    actor.load_weights(weights(body))
    for number in range(lag):
        body.update(rollout(env, actor, horizon=learner.horizon, seed=100 + number), never)
    return body, rollout(env, actor, horizon=learner.horizon, seed=seed), actor
