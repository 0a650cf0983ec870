"""The way back written out equals autograd's, for every kind of action."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ebrl.frontend.program import ActionProgram
from ebrl.stages import MLPPolicy
from ebrl.stages.learners.answers import Traced, answer
from ebrl.stages.policies.body import seeded_network
from ebrl.stages.policies.flat import FlatNetwork
from tests.stages.batches import BOX, DISCRETE, VECTOR, environment, observations
from tests.stages.test_policies import CHUNKED, CHUNKED_DISCRETE

CASES = [
    (MLPPolicy(hidden=(8, 6)), DISCRETE),
    (MLPPolicy(hidden=(8, 6), activation="relu"), BOX),
    (MLPPolicy(hidden=(), normalise_obs=True), BOX),
    (MLPPolicy(hidden=(8,), chunk=3), CHUNKED),
    (MLPPolicy(hidden=(8,), chunk=2), CHUNKED_DISCRETE),
]
CPU = torch.device("cpu")


def taken(action: ActionProgram, b: int) -> torch.Tensor:
    rng = np.random.default_rng(1)
    shape = (b, *map(int, action.tensor.shape))
    if action.kind == "discrete":
        return torch.from_numpy(rng.integers(0, action.n, shape))
    return torch.from_numpy(rng.standard_normal(shape, np.float32))


@pytest.mark.parametrize("entropy", [True, False])
@pytest.mark.parametrize(("policy", "action"), CASES)
def test_the_written_gradient_equals_autograd(policy: Any, action: Any, entropy: bool) -> None:
    flat = FlatNetwork(seeded_network(policy, environment(action, VECTOR), 3), CPU, trainable=True)
    with torch.no_grad():  # away from the small outputs of a fresh actor
        flat.values.mul_(1.7).add_(0.01)
    b = 9
    obs = {
        path: torch.from_numpy(array)
        for path, array in observations(VECTOR, (b,), np.random.default_rng(0)).items()
    }
    torch.manual_seed(0)
    gradients = (torch.randn(b), torch.randn(b), torch.randn(b) if entropy else None)
    found = []
    for given in (
        answer(flat.network, obs, taken(action, b)),
        Traced(flat.network, obs, taken(action, b)),
    ):
        flat.grads.zero_()
        given.backward(*gradients)
        found.append((given, flat.grads.clone()))
    (written, mine), (traced, wanted) = found
    assert not isinstance(written, Traced)
    assert wanted.abs().max() > 0.1
    torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)
    for name in ("log_prob", "value", "entropy"):
        torch.testing.assert_close(getattr(written, name), getattr(traced, name).detach())


def test_an_activation_without_a_written_slope_goes_through_autograd() -> None:
    flat = FlatNetwork(
        seeded_network(MLPPolicy(hidden=(8,), activation="silu"), environment(BOX, VECTOR), 0),
        CPU,
        trainable=True,
    )
    obs = {
        path: torch.from_numpy(array)
        for path, array in observations(VECTOR, (4,), np.random.default_rng(0)).items()
    }
    given = answer(flat.network, obs, taken(BOX, 4))
    assert isinstance(given, Traced)
    given.backward(torch.ones(4), torch.ones(4), None)
    assert flat.grads.abs().max() > 0
