"""What every learner of a network has: its tensors, an optimizer, publishing and resuming.

A learner of a user's own subclasses `NetworkLearner` and writes `update`; `descend` takes one step.
Invariant: `state` holds everything that `update` depends on, so that resuming equals not having
stopped; a subclass with more state extends `state` and `load_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ebrl.errors import RunError
from ebrl.frontend.program import EnvironmentProgram
from ebrl.stages.learners.adam import FlatAdam
from ebrl.stages.learners.ranks import Ranks
from ebrl.stages.policies.actor_critic import Answer
from ebrl.stages.policies.body import seeded_network
from ebrl.stages.policies.flat import FlatNetwork
from ebrl.stages.protocols import Batch, Weights

if TYPE_CHECKING:
    from ebrl.stages.base import Policy


class NetworkLearner:
    """`protocols.LearnerBody` without `update`. `network` is the policy's, ready to train."""

    def __init__(
        self,
        policy: Policy,
        environment: EnvironmentProgram,
        *,
        seed: int,
        device: str,
        adam_eps: float = 1e-5,
    ) -> None:
        self.device = torch.device(device)
        flat = FlatNetwork(seeded_network(policy, environment, seed), self.device, trainable=True)
        self.network: Any = flat.network.train()
        self.generator = torch.Generator().manual_seed(seed)
        self.updates = 0  # finished ones; a subclass counts them
        self._flat = flat
        self._adam = FlatAdam(flat.values, flat.grads, eps=adam_eps)
        self.ranks: Ranks | None = None
        self._part = 1.0  # of the minibatch's rows, that this rank computes

    def join(self, rank: int, world: int, meeting: str) -> None:
        """Be `rank` of `world` that find each other by the file `meeting`: gradients are summed
        over all of them.
        """
        self.ranks = Ranks(rank, world, meeting, self.device)

    def update(self, batch: Batch, should_stop: Callable[[], bool]) -> dict[str, float]:
        """One update; see `protocols.LearnerBody`."""
        raise NotImplementedError(f"{type(self).__name__} must implement update()")

    def weights(self) -> Weights:
        return self._flat.weights

    def write_weights(self, flat: NDArray[np.float32]) -> None:
        """Copy what is to be published, in the order policies read it."""
        torch.from_numpy(flat).copy_(self._flat.values)

    def descend(self, loss: Tensor, *, learning_rate: float, max_grad_norm: float = 0.5) -> None:
        """One optimizer step down a scalar loss."""
        self._flat.grads.zero_()
        torch.autograd.backward(loss)
        self._sum_over_ranks()
        self._adam.step(learning_rate, max_grad_norm)

    def follow(
        self,
        answer: Answer,
        gradients: tuple[Tensor, Tensor, Tensor | None],
        *,
        learning_rate: float,
        max_grad_norm: float = 0.5,
    ) -> None:
        """One optimizer step from the gradients at a network's answer."""
        self._flat.grads.zero_()
        answer.backward(*gradients)
        self._sum_over_ranks()
        self._adam.step(learning_rate, max_grad_norm)

    def _sum_over_ranks(self) -> None:
        if self.ranks is not None:
            self.ranks.reduce(self._flat.grads, self._part)

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Weights, optimizer and generator; number of updates and of optimizer steps."""
        tensors = {
            "values": self._flat.values,
            "generator": self.generator.get_state(),
            **self._adam.state(),
        }
        return (
            {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()},
            {"updates": self.updates, "adam_steps": self._adam.steps},
        )

    def load_state(self, tensors: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        if tensors["values"].shape != self._flat.values.shape:
            raise RunError(
                "checkpoint",
                f"the checkpoint holds {tensors['values'].numel()} numbers, "
                f"the network has {self._flat.values.numel()}",
                hint="resume with the graph that wrote it",
            )
        with torch.no_grad():
            self._flat.values.copy_(tensors["values"])
        self._adam.load(tensors, int(data["adam_steps"]))
        self.generator.set_state(tensors["generator"].cpu())
        self.updates = int(data["updates"])
