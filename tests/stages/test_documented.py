"""The three stages that the documentation shows do what it says they do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebrl.frontend.program import EnvironmentProgram
from ebrl.stages import PPO, MLPPolicy
from tests.stages.batches import environment, rollout, weights
from tests.stages.loop import learn

PAGE = Path(__file__).parents[2] / "docs" / "stages.md"


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "shown"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), namespace)
    return namespace


def test_each_example_is_about_ten_lines_of_the_users_own() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    assert all(len(block.strip().splitlines()) < 32 for block in blocks)


def test_the_simulator_and_the_policy_train_with_ppo(shown: dict[str, Any]) -> None:
    simulator, policy = shown["WindyCartPole"](wind=0.05), shown["LinearPolicy"]()
    spec, action, limit = simulator.describe()
    assert (str(spec), action.n, limit) == ("float32[4]", 2, 500)
    learner = PPO(horizon=16, batch=128, epochs=2, minibatch=64, learning_rate=1e-2)
    last = None
    for progress in learn(simulator, policy, learner, envs=4, steps=2_000, seed=0):
        last = progress
    assert last.episodes > 10
    assert np.isfinite(last.metrics["train/policy_loss"])


def test_the_wind_blows(shown: dict[str, Any]) -> None:
    told = []
    for wind in (0.0, 1.0):
        world, views = shown["WindyCartPole"](wind).environment(), {"": np.zeros(4, np.float32)}
        world.reset(3, views)
        for _ in range(6):
            world.step(np.array(0), views)
        told.append(views[""].copy())
    assert not np.array_equal(told[0], told[1])
    assert shown["WindyCartPole"](0.0).fingerprint() != shown["WindyCartPole"](1.0).fingerprint()


def test_the_learner_makes_rewarded_decisions_likelier(shown: dict[str, Any]) -> None:
    env: EnvironmentProgram = environment()
    learner, policy = shown["BestOfBatch"](horizon=8, batch=64), MLPPolicy(hidden=(8,))
    body: Any = learner.build(policy, env, None, seed=0, device="cpu", total_updates=None)
    actor = policy.build(env, seed=0, device="cpu")
    actor.load_weights(weights(body))
    batch = rollout(env, actor, horizon=8)
    losses = [body.update(batch, lambda: False)["train/policy_loss"] for _ in range(20)]
    assert losses[-1] < losses[0]
    other: Any = learner.build(policy, env, None, seed=5, device="cpu", total_updates=None)
    other.load_state(*body.state())
    assert body.update(batch, lambda: False) == other.update(batch, lambda: False)
    np.testing.assert_array_equal(weights(body), weights(other))
