"""The learner: its objective against autograd on the formula, and what an update may depend on."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ebrl.errors import GraphError, RunError
from ebrl.stages import PPO, CNNPolicy, MLPPolicy
from ebrl.stages.learners.gae import gae
from ebrl.stages.learners.objective import Tally, head_gradients
from ebrl.stages.learners.returns import decisions
from tests.stages.batches import (
    BOX,
    DISCRETE,
    PICTURE,
    VECTOR,
    build,
    environment,
    rollout,
    training,
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
    tally = Tally(clip, torch.device("cpu"))
    outputs, gradients = head_gradients(
        log_prob,
        value,
        entropy,
        torch.stack([prox, advantage * weight, target]),
        clip=clip,
        value_weight=value_weight,
        entropy_weight=entropy_weight,
        tally=tally,
    )
    for output, gradient, wanted in zip(outputs, gradients, expected, strict=False):
        assert output.shape == gradient.shape
        torch.testing.assert_close(gradient, wanted)
    assert len(outputs) == (3 if entropy_weight else 2)
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


def test_the_same_seed_gives_the_same_weights_and_another_one_others() -> None:
    def run(seed: int) -> np.ndarray:
        torch.manual_seed(np.random.randint(1 << 30))  # the global stream plays no part
        body, batch, _ = pair("box", small(), seed=seed)
        for _ in range(3):
            body.update(batch, never)
        return weights(body)

    np.testing.assert_array_equal(run(4), run(4))
    assert not np.array_equal(run(4), run(5))


def test_an_update_ends_between_minibatches_when_asked() -> None:
    body, batch, _ = pair("discrete", small())
    asked = []

    def third() -> bool:
        asked.append(1)
        return len(asked) == 3

    before = weights(body)
    metrics = body.update(batch, third)
    assert len(asked) == 3
    assert not np.array_equal(weights(body), before)
    assert np.isfinite(metrics["train/policy_loss"])


def test_observation_statistics_change_only_after_the_last_step() -> None:
    body, batch, _ = pair("box", small())
    network = body.network
    during: list[np.ndarray] = []

    def look() -> bool:
        during.append(network.normaliser.mean.numpy().copy())
        return False

    body.update(batch, look)
    assert all((each == 0).all() for each in during)
    valid = batch.steps[batch.segment] > 0
    seen = batch.obs[""][batch.segment][:, :-1][valid]
    np.testing.assert_allclose(network.normaliser.mean, seen.mean(0), atol=1e-6)
    np.testing.assert_allclose(network.normaliser.var, seen.var(0), rtol=1e-5)
    body.update(batch, never)
    np.testing.assert_allclose(network.normaliser.var, seen.var(0), rtol=1e-5)
    assert float(network.normaliser.count) == 2 * len(seen)


def test_resuming_equals_not_having_stopped() -> None:
    learner = small(anneal=0.0)
    body, batch, _ = pair("box", learner)
    action, obs, policy = KINDS["box"]
    body = build(learner, policy, environment(action, obs), total_updates=5)
    other = build(learner, policy, environment(action, obs), seed=9, total_updates=5)
    for _ in range(2):
        body.update(batch, never)
    other.load_state(*body.state())
    told = [each.update(batch, never) for each in (body, other)]
    assert told[0] == told[1]
    np.testing.assert_array_equal(weights(body), weights(other))


def test_a_checkpoint_of_another_network_is_refused() -> None:
    body, _, _ = pair("box", small())
    with pytest.raises(RunError, match="resume with the graph that wrote it"):
        body.load_state(*pair("discrete", small())[0].state())


def test_the_learning_rate_is_annealed_over_the_updates_of_the_run() -> None:
    learner = small(learning_rate=1e-3, anneal=0.25, epochs=1)
    action, obs, policy = KINDS["discrete"]
    body = build(learner, policy, environment(action, obs), total_updates=4)
    _, batch, _ = pair("discrete", learner)
    rates = [body.update(batch, never)["train/learning_rate"] for _ in range(6)]
    assert rates == pytest.approx([1e-3, 8.125e-4, 6.25e-4, 4.375e-4, 2.5e-4, 2.5e-4])


def test_epochs_end_early_when_the_policy_moved_too_far() -> None:
    asked: list[int] = []

    def count() -> bool:
        asked.append(1)
        return False

    body, batch, _ = pair("box", small(epochs=10, learning_rate=0.05, target_kl=1e-3))
    body.update(batch, count)
    assert len(asked) < 20


def test_a_diverged_update_is_an_error_and_not_a_policy() -> None:
    body, batch, _ = pair("box", small())
    batch.reward[:] = np.inf
    with pytest.raises(RunError, match="non-finite"), np.errstate(all="ignore"):
        body.update(batch, never)


def test_pictures_are_gathered_by_minibatch_and_never_floated_as_a_batch() -> None:
    body, batch, _ = pair("pictures", small())
    batch.obs["rgb"] = batch.obs["rgb"][:]
    asked: list[torch.Tensor] = []
    evaluate = body.network.evaluate

    def watch(obs: Any) -> Any:
        asked.append(obs["rgb"])
        return evaluate(obs)

    body.network.evaluate = watch
    data = body._prepare(batch)
    data.small = False
    asked.clear()
    for part in body._minibatches(data):
        body._step(part, 1e-3, Tally(0.2, torch.device("cpu")))
    rows = sum(len(each) for each in asked)
    assert rows == data.count
    assert all(each.dtype == torch.uint8 and len(each) <= 24 for each in asked)


def test_a_strided_pool_gives_the_same_update_as_a_contiguous_one() -> None:
    made = []
    for strided in (False, True):
        body, batch, _ = pair("box", small())
        if strided:
            wide = np.zeros((*batch.obs[""].shape[:2], 9), np.float32)
            wide[..., :5] = batch.obs[""]
            batch.obs[""] = wide[..., :5]
        body.update(batch, never)
        made.append(weights(body))
    np.testing.assert_array_equal(made[0], made[1])


def test_a_network_with_only_the_two_required_methods_trains() -> None:
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = KINDS["box"][2].network(environment())

        def distribution(self, obs: Any) -> Any:
            return self.inner.distribution(obs)

        def value(self, obs: Any) -> Any:
            return self.inner.value(obs)

    class Mine(MLPPolicy):
        def network(self, environment: Any) -> Any:
            del environment
            return Plain()

    body = build(small(), Mine(), environment())
    _, batch, _ = pair("box", small())
    before = weights(body)
    body.update(batch, never)
    assert not np.array_equal(weights(body), before)


@pytest.mark.parametrize(
    "wrong",
    [
        {"horizon": 0},
        {"batch": 4},
        {"epochs": 0},
        {"learning_rate": 0},
        {"gamma": 1.5},
        {"clip": 1.0},
        {"advantages": "td"},
        {"rho_clip": 0.5},
        {"terminal": "absorb", "gamma": 1.0},
    ],
)
def test_a_wrong_setting_is_named_when_it_is_declared(wrong: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match=f"{next(iter(wrong))} must be|gamma must be"):
        small(**wrong)


def test_the_epochs_and_the_minibatch_of_the_plan_are_used() -> None:
    learner = small(epochs=3, minibatch=16)
    action, obs, policy = KINDS["discrete"]
    body = build(learner, policy, environment(action, obs))
    _, batch, _ = pair("discrete", learner)
    asked: list[int] = []

    def count() -> bool:
        asked.append(1)
        return False

    body.update(batch, count)
    decided = int((batch.steps[batch.segment] > 0).sum())
    assert len(asked) == training(learner).epochs * round(decided / 16)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_learns_as_the_cpu_does(kind: str) -> None:
    action, obs, policy = KINDS[kind]
    env, learner = environment(action, obs), small(epochs=1, minibatch=None)
    made = []
    for device in ("cpu", "cuda"):
        body = learner.build(
            policy, env, training(learner), seed=0, device=device, total_updates=None
        )
        actor = policy.build(env, seed=1, device="cpu")
        actor.load_weights(weights(body))
        body.update(rollout(env, actor, horizon=8), never)
        made.append(weights(body))
    np.testing.assert_allclose(made[0], made[1], atol=2e-3)
