"""Policies: what they sample, what they publish, and what they leave alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from ebrl.frontend.program import ActionProgram
from ebrl.frontend.spec import Spec, Tensor
from ebrl.stages import CNNPolicy, MLPPolicy
from ebrl.stages.policies.actor_critic import Categorical, Gaussian
from tests.stages.batches import BOX, DISCRETE, PICTURE, VECTOR, environment, observations

CHUNKED = ActionProgram(
    kind="box", dtype="float32", shape=(2,), low=(-1.0,) * 2, high=(1.0,) * 2, chunk=3
)
CHUNKED_DISCRETE = ActionProgram(kind="discrete", dtype="int64", n=4, chunk=2)
CNN = CNNPolicy(channels=(4, 4, 4), features=8, hidden=(8,), normalise_obs=True)
ALL = [
    (MLPPolicy(hidden=(8,)), DISCRETE, VECTOR),
    (MLPPolicy(hidden=(8,), normalise_obs=True), BOX, VECTOR),
    (MLPPolicy(hidden=(8,), chunk=3), CHUNKED, VECTOR),
    (MLPPolicy(hidden=(8,), chunk=2), CHUNKED_DISCRETE, VECTOR),
    (MLPPolicy(hidden=()), BOX, Spec({"b": Spec("float32", (2, 2)), "a": Spec("float32")})),
    (CNN, BOX, PICTURE),
    (
        CNN,
        DISCRETE,
        Spec({"left": Tensor("uint8", (36, 48, 3)), "right": Tensor("uint8", (40, 40, 1))}),
    ),
]
each_policy = pytest.mark.parametrize(("policy", "action", "obs"), ALL)


def noise_for(body: Any, b: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if body.noise_kind == "normal":
        return rng.standard_normal((b, body.noise_size), np.float32)
    return rng.random((b, body.noise_size), np.float32)


@each_policy
def test_an_answer_has_the_shape_and_dtype_of_the_action(
    policy: Any, action: ActionProgram, obs: Spec
) -> None:
    body = policy.build(environment(action, obs), seed=0, device="cpu")
    seen = observations(obs, (6,), np.random.default_rng(0))
    chosen, log_prob = body.act(seen, noise_for(body, 6))
    assert chosen.shape == (6, *action.tensor.shape)
    assert chosen.dtype == action.dtype
    assert log_prob.shape == (6,)
    assert log_prob.dtype == np.float32
    assert np.isfinite(log_prob).all()


@each_policy
def test_a_sample_does_not_depend_on_who_shares_the_batch(
    policy: Any, action: ActionProgram, obs: Spec
) -> None:
    body = policy.build(environment(action, obs), seed=0, device="cpu")
    seen = observations(obs, (6,), np.random.default_rng(0))
    noise = noise_for(body, 6)
    together, log_prob = (each.copy() for each in body.act(seen, noise))
    for i in range(6):
        alone, alone_log_prob = body.act(
            {p: v[i : i + 1] for p, v in seen.items()}, noise[i : i + 1]
        )
        np.testing.assert_allclose(alone[0], together[i], atol=1e-5)
        np.testing.assert_allclose(alone_log_prob[0], log_prob[i], atol=1e-5)


@each_policy
def test_weights_are_told_without_allocating_and_sorted(
    policy: Any, action: ActionProgram, obs: Spec
) -> None:
    env = environment(action, obs)
    told = policy.weights_of(env)
    body = policy.build(env, seed=0, device="cpu")
    assert list(told) == sorted(told)
    assert list(told.items()) == list(body.weights().items())


@each_policy
def test_zero_weights_turn_every_answer_to_the_middle(
    policy: Any, action: ActionProgram, obs: Spec
) -> None:
    body = policy.build(environment(action, obs), seed=0, device="cpu")
    body.load_weights(np.zeros(sum(map(math.prod, body.weights().values())), np.float32))
    seen = observations(obs, (4,), np.random.default_rng(0))
    if action.kind == "box":
        chosen, _ = body.act(seen, np.zeros((4, body.noise_size), np.float32))
        assert (chosen == 0).all()
    else:
        _, log_prob = body.act(seen, noise_for(body, 4))
        np.testing.assert_allclose(log_prob, -action.chunk * math.log(action.n), rtol=1e-5)


def test_loading_weights_allocates_nothing_and_reaches_the_network() -> None:
    policy, env = MLPPolicy(hidden=(8,)), environment()
    bodies: list[Any] = [policy.build(env, seed=s, device="cpu") for s in (0, 1)]
    pointers = [p.data_ptr() for p in bodies[1]._network.parameters()]
    bodies[1].load_weights(bodies[0]._flat.values.numpy().copy())
    assert [p.data_ptr() for p in bodies[1]._network.parameters()] == pointers
    seen, noise = observations(VECTOR, (3,), np.random.default_rng(0)), noise_for(bodies[0], 3)
    first, second = (body.act(seen, noise)[0].copy() for body in bodies)
    np.testing.assert_array_equal(first, second)


def test_acting_never_asks_the_critic() -> None:
    body: Any = MLPPolicy(hidden=(8,)).build(environment(), seed=0, device="cpu")
    with torch.inference_mode():
        for parameter in body._network.critic.parameters():
            parameter.fill_(float("nan"))

    def refuse(*_: Any) -> None:
        raise AssertionError("the critic was asked")

    body._network.value = refuse
    body._network.evaluate = refuse
    chosen, _ = body.act(observations(VECTOR, (3,), np.random.default_rng(0)), noise_for(body, 3))
    assert np.isfinite(chosen).all()


def test_building_leaves_torchs_own_random_stream_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    MLPPolicy().build(environment(), seed=0, device="cpu")
    assert torch.equal(torch.rand(1), expected)


def test_categorical_samples_follow_their_probabilities() -> None:
    logits = torch.tensor([0.0, 1.0, -1.0]).repeat(200_000, 1)
    noise = torch.rand(logits.shape, generator=torch.Generator().manual_seed(0))
    noise[0] = 0.0  # the generator may give it
    chosen, log_prob = Categorical(logits).sample(noise)
    p = torch.softmax(logits[0], -1)
    assert torch.bincount(chosen) / len(chosen) == pytest.approx(p, abs=5e-3)
    np.testing.assert_allclose(log_prob, p.log()[chosen], rtol=1e-5)
    assert float(Categorical(logits).entropy()[0]) == pytest.approx(float(-(p * p.log()).sum()))


@pytest.mark.parametrize("shape", [(4,), (3, 4), (3, 2, 2)])
def test_gaussian_log_prob_and_entropy_are_torchs_own(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    log_std = torch.randn(shape[-1:] if len(shape) < 3 else shape[1:]) * 0.5
    mean = torch.randn(5, *shape)
    ours = Gaussian(mean, log_std)
    theirs = torch.distributions.Independent(
        torch.distributions.Normal(mean, log_std.exp().expand_as(mean)), len(shape)
    )
    noise = torch.randn(5, math.prod(shape))
    action, log_prob = ours.sample(noise)
    torch.testing.assert_close(action, mean + noise.view(mean.shape) * log_std.exp())
    torch.testing.assert_close(log_prob, theirs.log_prob(action), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.entropy(), theirs.entropy())


def test_hidden_layers_are_orthogonal_and_the_last_of_the_actor_small() -> None:
    network = MLPPolicy(hidden=(16, 16)).network(environment())
    hidden = network.actor.layers[1].weight
    torch.testing.assert_close(hidden @ hidden.T, 2 * torch.eye(16), atol=1e-5, rtol=0)
    assert network.actor.layers[-1].weight.norm(dim=1).max() < 0.02
    assert network.critic.layers[-1].weight.norm().item() == pytest.approx(1.0)
    assert (network.head.log_std == 0).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@each_policy
def test_a_gpu_answers_as_the_cpu_does(policy: Any, action: ActionProgram, obs: Spec) -> None:
    bodies = [policy.build(environment(action, obs), seed=0, device=d) for d in ("cpu", "cuda")]
    seen = observations(obs, (6,), np.random.default_rng(0))
    noise = noise_for(bodies[0], 6)
    answers = [tuple(each.copy() for each in body.act(seen, noise)) for body in bodies]
    for ours, theirs in zip(*answers, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-2)
