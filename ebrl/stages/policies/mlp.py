"""The network of `MLPPolicy`: an actor and a critic that share nothing but the normaliser."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ebrl.frontend.program import EnvironmentProgram
from ebrl.stages.policies.actor_critic import (
    ActionHead,
    Answer,
    Distribution,
    Network,
    Observation,
)
from ebrl.stages.policies.normalise import RunningNormaliser
from ebrl.stages.policies.perceptron import Perceptron

if TYPE_CHECKING:
    from ebrl.stages.networks import MLPPolicy


class Vector:
    """Concatenates the vectors among the observations at `paths`, in that order: [b, size]."""

    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        self.paths = tuple(shapes)
        self.size = sum(math.prod(shape) for shape in shapes.values())
        self.flat = all(len(shape) == 1 for shape in shapes.values())

    def __call__(self, obs: Observation) -> Tensor:
        if len(self.paths) == 1:
            only = obs[self.paths[0]]
            return only if self.flat else only.reshape(len(only), -1)
        return torch.cat([obs[path].reshape(len(obs[path]), -1) for path in self.paths], 1)


def vectors_of(environment: EnvironmentProgram) -> Vector:
    """The float32 observations of an environment."""
    return Vector(
        {
            path: tuple(int(dim) for dim in tensor.shape)
            for path, tensor in environment.obs.items()
            if tensor.dtype == "float32"
        }
    )


class MLPNetwork(Network):
    def __init__(self, policy: MLPPolicy, environment: EnvironmentProgram) -> None:
        super().__init__()
        self.vector = vectors_of(environment)
        self.head = ActionHead(environment.action, policy.log_std_init)
        sizes = (self.vector.size, *policy.hidden)
        self.actor = Perceptron((*sizes, self.head.outputs), policy.activation, last_gain=0.01)
        self.critic = Perceptron((*sizes, 1), policy.activation, last_gain=1.0)
        self.normaliser = RunningNormaliser(self.vector.size) if policy.normalise_obs else None
        self.observed = self.vector.paths if policy.normalise_obs else ()

    def _input(self, obs: Observation) -> Tensor:
        x = self.vector(obs)
        return x if self.normaliser is None else self.normaliser(x)

    def distribution(self, obs: Observation) -> Distribution:
        return self.head.distribution(self.actor(self._input(obs)))

    def value(self, obs: Observation) -> Tensor:
        value: Tensor = self.critic(self._input(obs)).squeeze(-1)
        return value

    def evaluate(self, obs: Observation) -> tuple[Distribution, Tensor]:
        x = self._input(obs)
        return self.head.distribution(self.actor(x)), self.critic(x).squeeze(-1)

    def answer(self, obs: Observation, action: Tensor) -> Answer | None:
        """The answer with its way back written out; None where only autograd knows it."""
        return _Answer(self, self._input(obs), action) if self.actor.reversible else None

    def observe(self, obs: Observation) -> None:
        assert self.normaliser is not None
        self.normaliser.update(self.vector(obs))


class _Answer:
    """`Answer` of an `MLPNetwork`, without autograd."""

    @torch.no_grad()
    def __init__(self, network: MLPNetwork, x: Tensor, action: Tensor) -> None:
        self._network = network
        self._action = action
        self._actor = network.actor.trace(x)
        self._critic = network.critic.trace(x)
        self._distribution = network.head.distribution(self._actor[-1])
        self.log_prob = self._distribution.log_prob(action)
        self.entropy = self._distribution.entropy()
        self.value = self._critic[-1].squeeze(-1)

    @torch.no_grad()
    def backward(self, log_prob: Tensor, value: Tensor, entropy: Tensor | None) -> None:
        head = self._network.head
        gradient = head.backward(self._distribution, self._action, log_prob, entropy)
        self._network.actor.backward(self._actor, gradient)
        self._network.critic.backward(self._critic, value.unsqueeze(-1))
