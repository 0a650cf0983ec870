"""What an update leaves behind: repeatable, resumable, interruptible, and refused where wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ebrl.errors import GraphError, RunError
from ebrl.stages import MLPPolicy
from ebrl.stages.learners.objective import Tally
from ebrl.stages.policies.scattered import Scattered
from tests.stages.batches import (
    build,
    environment,
    rollout,
    training,
    weights,
)
from tests.stages.learning import KINDS, never, pair, small


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


def test_pictures_are_read_in_place_by_minibatch_and_never_floated_as_a_batch() -> None:
    body, batch, _ = pair("pictures", small())
    asked: list[Scattered] = []
    evaluate = body.network.evaluate

    def watch(obs: Any) -> Any:
        asked.append(obs["rgb"])
        return evaluate(obs)

    body.network.evaluate = watch
    data = body._prepare(batch)
    data.small = False
    asked.clear()
    tally = Tally(0.2, data.count, torch.device("cpu"))
    for part in body._minibatches(data):
        body._step(part, 1e-3, tally)
    rows = sum(len(each) for each in asked)
    assert rows == data.count
    assert all(len(each) <= 24 for each in asked)
    slab = batch.obs["rgb"]
    assert all(np.shares_memory(each._pool.numpy(), slab) for each in asked)


def test_reading_pictures_in_place_gives_the_numbers_of_gathering_them() -> None:
    found = []
    for in_place in (frozenset({"rgb"}), frozenset()):
        body, batch, _ = pair("pictures", small())
        body.network.in_place = in_place
        body.update(batch, never)
        found.append(body.state()[0]["values"])
    assert torch.equal(*found)


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
