"""The learner: its objective against autograd on the formula, and what an update may depend on."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ebrl.stages import PPO, MLPPolicy
from ebrl.stages.learners.gae import gae
from ebrl.stages.learners.objective import Tally, head_gradients
from ebrl.stages.learners.returns import decisions
from tests.stages.batches import (
    build,
    environment,
    rollout,
    weights,
)
from tests.stages.learning import KINDS, never, pair, small


@pytest.mark.parametrize("kind", KINDS)
def test_the_stored_log_prob_equals_the_recomputed_one(kind: str) -> None:
    body, batch, _ = pair(kind, small())
    data = body._prepare(batch)
    valid = batch.steps[batch.segment] > 0
    np.testing.assert_allclose(
        data.columns[0].numpy(), batch.log_prob[batch.segment][valid], atol=2e-5
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lag", [0, 1])
def test_the_ratio_is_one_before_the_first_optimizer_step(kind: str, lag: int) -> None:
    body, batch, _ = pair(kind, small(learning_rate=1e-12, epochs=1, minibatch=None), lag=0)
    if lag:
        # Statistics and weights have moved since the actions were chosen.
        body, batch, _ = pair(kind, small(learning_rate=1e-2), lag=1)
        body.settings.learning_rate = 1e-12
    metrics = body.update(batch, never)
    assert metrics["train/clip_fraction"] == 0
    assert abs(metrics["train/approx_kl"]) < 1e-6


@pytest.mark.parametrize("entropy_weight", [0.0, 0.03])
def test_the_closed_form_gradient_equals_autograd_on_the_objective(entropy_weight: float) -> None:
    torch.manual_seed(0)
    n, clip, value_weight = 400, 0.2, 0.7
    log_prob = (torch.randn(n) * 0.4).requires_grad_()
    value = torch.randn(n, requires_grad=True)
    entropy = torch.randn(n, requires_grad=True)
    prox, behaviour, advantage, target = (torch.randn(4, n) * 0.4).unbind()
    weight = (prox - behaviour).exp()
    r = (log_prob - prox).exp()
    inner = torch.minimum(r * advantage, r.clamp(1 - clip, 1 + clip) * advantage)
    loss = (
        -(weight * inner).mean()
        + value_weight * 0.5 * ((value - target) ** 2).mean()
        - entropy_weight * entropy.mean()
    )
    expected = torch.autograd.grad(loss, [log_prob, value, entropy], allow_unused=True)
    tally = Tally(clip, n, torch.device("cpu"))
    gradients = head_gradients(
        SimpleNamespace(log_prob=log_prob, value=value, entropy=entropy, backward=None),
        torch.stack([prox, advantage * weight, target]),
        clip=clip,
        value_weight=value_weight,
        entropy_weight=entropy_weight,
        tally=tally,
    )
    for gradient, wanted in zip(gradients, expected, strict=True):
        if gradient is None:
            assert not entropy_weight
        else:
            torch.testing.assert_close(gradient, wanted)
    tally.end_epoch()
    told = tally.metrics()
    assert told["train/policy_loss"] == pytest.approx(-(weight * inner).mean().item(), abs=1e-6)
    outside = ((r < 1 - clip) | (r > 1 + clip)).float().mean()
    assert told["train/clip_fraction"] == pytest.approx(outside.item(), abs=1e-6)
    kl = (r - 1 - r.log()).mean()
    assert told["train/approx_kl"] == pytest.approx(kl.item(), abs=1e-6)


def reference_update(body: Any, learner: PPO, batch: Any) -> np.ndarray:
    """One whole-batch step of textbook PPO on the same network, with torch's own Adam."""
    network = body.network
    seg = batch.segment
    given = decisions(
        batch.reward[seg],
        batch.steps[seg],
        batch.terminated[seg],
        batch.truncated[seg],
        gamma=learner.gamma,
    )
    obs = torch.from_numpy(batch.obs[""][seg])
    with torch.no_grad():
        value = network.value({"": obs.flatten(0, 1)}).view(obs.shape[:2]).numpy()
    advantage, target = gae(given, value, learner.gae_lambda)
    valid = given.valid
    a, goal = torch.from_numpy(advantage[valid]), torch.from_numpy(target[valid])
    a = (a - a.mean()) / (a.std(unbiased=False) + 1e-8)
    seen = {"": obs[:, :-1][torch.from_numpy(valid)]}
    taken = torch.from_numpy(batch.action[seg][valid])
    old = torch.from_numpy(batch.log_prob[seg][valid])
    network = deepcopy(network)
    parameters = list(network.parameters())
    for each in parameters:
        each.grad = None
    distribution, value_now = network.evaluate(seen)
    log_prob, entropy = distribution.log_prob(taken), distribution.entropy()
    ratio = (log_prob - old).exp()
    loss = (
        -torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
        + learner.value_weight * 0.5 * (value_now - goal).pow(2).mean()
        - learner.entropy * entropy.mean()
    )
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, learner.max_grad_norm)
    torch.optim.Adam(parameters, lr=learner.learning_rate, eps=learner.adam_eps).step()
    found = {name: each.detach() for name, each in network.named_parameters()}
    found.update(network.named_buffers())
    return torch.cat([found[name].ravel() for name in sorted(found)]).numpy()


@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_at_one_version_an_update_is_exactly_ppo(kind: str) -> None:
    action, obs, _ = KINDS[kind]
    learner = small(epochs=1, minibatch=None, entropy=0.01, learning_rate=1e-2)
    policy = MLPPolicy(hidden=(16,))
    env = environment(action, obs)
    body = build(learner, policy, env)
    actor = policy.build(env, seed=3, device="cpu")
    actor.load_weights(weights(body))
    batch = rollout(env, actor, horizon=8)
    expected = reference_update(body, learner, batch)
    body.update(batch, never)
    np.testing.assert_allclose(weights(body), expected, atol=2e-5)


def test_stale_rows_are_weighted_by_prox_over_behaviour() -> None:
    body, batch, _ = pair("box", small(normalise_advantages=False))
    plain = body._prepare(batch)
    older = replace(batch, log_prob=batch.log_prob - np.float32(0.3))
    np.testing.assert_allclose(
        body._prepare(older).columns[1], plain.columns[1] * np.exp(0.3), rtol=1e-3, atol=1e-6
    )
    # The ratio r is against pi_prox, whatever the behaviour was.
    np.testing.assert_array_equal(body._prepare(older).columns[0], plain.columns[0])
    ancient = replace(batch, log_prob=batch.log_prob - np.float32(1e4))
    np.testing.assert_allclose(
        body._prepare(ancient).columns[1], plain.columns[1] * 10, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("advantages", ["gae", "vtrace"])
@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_rows_without_a_decision_take_part_in_nothing(kind: str, advantages: Any) -> None:
    made = []
    for rubbish in (False, True):
        body, batch, _ = pair(kind, small(advantages=advantages))
        if rubbish:
            none = batch.steps == 0
            batch.reward[none] = np.nan
            batch.log_prob[none] = np.nan
            batch.action[none] = batch.action.dtype.type(1)
            out = np.setdiff1d(np.arange(len(batch.steps)), batch.segment)
            batch.obs[""][out] = np.nan
            batch.reward[out] = np.nan
        body.update(batch, never)
        made.append(weights(body))
    np.testing.assert_array_equal(made[0], made[1])
