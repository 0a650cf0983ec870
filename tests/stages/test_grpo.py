"""GRPO against its definition, episode by episode, and on sparse rewards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.errors import GraphError
from ebrl.stages import GRPO, MLPPolicy
from ebrl.stages.learners.grpo import EPS, beginnings, in_groups
from ebrl.stages.protocols import Batch
from tests.stages.batches import DISCRETE, VECTOR, build, environment, weights


def never() -> bool:
    return False


def episodes(
    groups: list[int], lengths: list[int], rewards: list[float], horizon: int = 6
) -> Batch:
    """Segment i: one episode that begins as its group does and is rewarded at its end."""
    n = len(groups)
    rng = np.random.default_rng(0)
    first = rng.standard_normal((max(groups) + 1, 5)).astype(np.float32)
    obs = rng.standard_normal((n, horizon + 1, 5)).astype(np.float32)
    obs[:, 0] = first[groups]
    steps = np.zeros((n, horizon), np.uint8)
    reward = np.zeros((n, horizon, 1), np.float32)
    terminated = np.zeros((n, horizon), np.bool_)
    for i, length in enumerate(lengths):
        steps[i, :length] = 1
        reward[i, length - 1] = rewards[i]
        terminated[i, length - 1] = True
    return Batch(
        segment=np.arange(n),
        obs={"": obs},
        action=rng.integers(0, 3, (n, horizon)),
        log_prob=np.full((n, horizon), -np.log(3), np.float32),
        version=np.zeros((n, horizon), np.int64),
        reward=reward,
        steps=steps,
        terminated=terminated,
        truncated=np.zeros_like(terminated),
        trained_version=0,
    )


def by_definition(groups: list[int], rewards: list[float]) -> list[float]:
    found = []
    for mine, reward in zip(groups, rewards, strict=True):
        others = [r for g, r in zip(groups, rewards, strict=True) if g == mine]
        mean = sum(others) / len(others)
        spread = (sum((r - mean) ** 2 for r in others) / len(others)) ** 0.5
        found.append((reward - mean) / (spread + EPS))
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, 0.25])), min_size=1))
def test_an_advantage_is_the_return_against_its_group(rows: list[tuple[int, float]]) -> None:
    groups = [group for group, _ in rows]
    rewards = [reward for _, reward in rows]
    numbers = np.unique(groups, return_inverse=True)[1]
    found = in_groups(np.array(rewards, np.float32), numbers)
    np.testing.assert_allclose(found, by_definition(groups, rewards), atol=2e-3)


def test_episodes_that_begin_alike_are_one_group() -> None:
    batch = episodes([0, 1, 0, 2, 1], [6] * 5, [0.0] * 5)
    assert beginnings(batch).tolist() == [0, 1, 0, 2, 1]


@pytest.mark.parametrize("by_episode", [False, True])
def test_an_update_is_the_policy_gradient_of_the_definition(by_episode: bool) -> None:
    """One step of plain gradient, from autograd over the definition, gives the same direction."""
    groups, lengths = [0, 0, 0, 1, 1], [2, 6, 4, 5, 1]
    rewards = [1.0, 0.0, 0.0, 1.0, 0.0]
    batch = episodes(groups, lengths, rewards)
    learner = GRPO(horizon=6, batch=30, group=3, by_episode=by_episode, max_grad_norm=1e9)
    env = environment(DISCRETE, VECTOR)
    policy = MLPPolicy(hidden=(8,))
    body = build(learner, policy, env)
    twin = build(learner, policy, env)
    network = twin.network
    advantage = by_definition(groups, rewards)
    weight = [np.mean(lengths) / length if by_episode else 1.0 for length in lengths]
    loss = torch.zeros(())
    for i, length in enumerate(lengths):
        obs = {"": torch.from_numpy(batch.obs[""][i, :length])}
        taken = torch.from_numpy(batch.action[i, :length])
        log_prob = network.distribution(obs).log_prob(taken)
        ratio = (log_prob.detach() - torch.from_numpy(batch.log_prob[i, :length])).exp()
        loss = loss - (ratio * advantage[i] * weight[i] * log_prob).sum()
    twin.descend(loss / sum(lengths), learning_rate=3e-4, max_grad_norm=1e9)
    body.update(batch, never)
    np.testing.assert_allclose(weights(body), weights(twin), atol=2e-6)


def test_from_a_group_that_came_to_the_same_nothing_is_learnt() -> None:
    batch = episodes([0, 0, 1, 1], [3, 5, 2, 6], [1.0, 1.0, 0.0, 0.0])
    body = build(GRPO(horizon=6, batch=24, group=2), MLPPolicy(hidden=(8,)), environment(DISCRETE))
    before = weights(body)
    body.update(batch, never)
    np.testing.assert_array_equal(weights(body), before)


def test_the_critic_is_left_alone() -> None:
    body = build(GRPO(horizon=6, batch=24, group=2), MLPPolicy(hidden=(8,)), environment(DISCRETE))
    critic = [p.detach().clone() for p in body.network.critic.parameters()]
    body.update(episodes([0, 0, 1, 1], [3, 5, 2, 6], [1.0, 0.0, 0.0, 1.0]), never)
    assert all(
        torch.equal(a, b) for a, b in zip(critic, body.network.critic.parameters(), strict=True)
    )


def test_a_group_of_one_is_refused() -> None:
    with pytest.raises(GraphError, match="at least 2"):
        GRPO(horizon=4, batch=8, group=1)
