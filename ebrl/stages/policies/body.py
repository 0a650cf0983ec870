"""The policy inside a generate worker: one network, no gradients, no critic.

Invariant: `act` copies each observation once (to the device; on the CPU not at all), and loading
weights is one copy into memory that the network already uses. What the network reads in place
(pictures, on the CPU) is not even gathered for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ebrl.frontend.program import EnvironmentProgram
from ebrl.stages.policies.actor_critic import noise_of
from ebrl.stages.policies.flat import FlatNetwork, shapes
from ebrl.stages.policies.scattered import Scattered
from ebrl.stages.protocols import Array, InPlace, Weights

if TYPE_CHECKING:
    from ebrl.stages.base import Policy


def seeded_network(policy: Policy, environment: EnvironmentProgram, seed: int) -> torch.nn.Module:
    """The network with its initial parameters drawn from `seed`, torch's own stream untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: torch.nn.Module = policy.network(environment)
    return network


def weights_of(policy: Policy, environment: EnvironmentProgram) -> Weights:
    """Names and shapes of everything published; nothing is allocated (meta device)."""
    with torch.device("meta"):
        return shapes(policy.network(environment))


class NetworkPolicy:
    """`protocols.PolicyBody` over any network with `distribution`."""

    noise_size: int
    noise_kind: Literal["normal", "uniform"]

    def __init__(
        self, policy: Policy, environment: EnvironmentProgram, *, seed: int, device: str
    ) -> None:
        self._device = torch.device(device)
        self._flat = FlatNetwork(
            seeded_network(policy, environment, seed), self._device, trainable=False
        )
        self._network: Any = self._flat.network.eval()
        on_cpu = self._device.type == "cpu"
        self.in_place: frozenset[str] = (
            getattr(self._network, "in_place", frozenset()) if on_cpu else frozenset()
        )
        self.noise_size, self.noise_kind = noise_of(environment.action)
        self._dtype = np.dtype(environment.action.dtype)

    def weights(self) -> Weights:
        return self._flat.weights

    def load_weights(self, flat: NDArray[np.float32]) -> None:
        """Take the published parameters and buffers, concatenated in sorted order of names."""
        with torch.inference_mode():
            self._flat.values.copy_(torch.from_numpy(flat))

    def act(
        self, obs: Mapping[str, Array | InPlace], noise: NDArray[np.float32]
    ) -> tuple[Array, NDArray[np.float32]]:
        """Observations [b, ...], noise [b, noise_size] → raw actions [b, (k,) ...], log-probs."""
        with torch.inference_mode():
            if self._device.type == "cpu":
                seen = {path: _seen(value) for path, value in obs.items()}
                action, log_prob = self._network.distribution(seen).sample(torch.from_numpy(noise))
            else:
                seen = {path: self._stage(value) for path, value in obs.items()}
                action, log_prob = self._network.distribution(seen).sample(self._stage(noise))
                action, log_prob = action.cpu(), log_prob.cpu()
            answer = action.numpy()
            if answer.dtype != self._dtype:
                answer = answer.astype(self._dtype)
            return answer, log_prob.numpy()

    def _stage(self, value: Array | InPlace) -> torch.Tensor:
        assert not isinstance(value, InPlace), "it is asked for on the CPU only"
        return torch.from_numpy(value).pin_memory().to(self._device, non_blocking=True)


def _seen(value: Array | InPlace) -> torch.Tensor | Scattered:
    if isinstance(value, InPlace):
        return Scattered(torch.from_numpy(value.pool), value.rows.tolist())
    return torch.from_numpy(value)
