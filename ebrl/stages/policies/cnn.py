"""The network of `CNNPolicy`: convolutions over each image, vectors joined, actor and critic on
top.

Invariant: images arrive as uint8 [b, height, width, channels] and are scaled here; nobody stores
them as floats. On a CPU they are read where they lie in shared memory. Actor and critic share the
features, so `evaluate` computes them once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ebrl.frontend.program import EnvironmentProgram
from ebrl.stages.policies.actor_critic import (
    ActionHead,
    Distribution,
    Network,
    Observation,
    layer,
)
from ebrl.stages.policies.mlp import vectors_of
from ebrl.stages.policies.normalise import RunningNormaliser
from ebrl.stages.policies.perceptron import ACTIVATIONS, Perceptron
from ebrl.stages.policies.scattered import Scattered, floats

if TYPE_CHECKING:
    from ebrl.stages.networks import CNNPolicy

KERNELS = ((8, 4), (4, 2), (3, 1))  # (size, stride) of the three convolutions, Mnih et al. (2015)


class ImageEncoder(nn.Module):
    """[b, height, width, channels] uint8 → [b, features]."""

    def __init__(self, policy: CNNPolicy, shape: tuple[int, int, int]) -> None:
        super().__init__()
        height, width, channels = shape
        self.convolutions = nn.ModuleList()
        for outputs, (size, stride) in zip(policy.channels, KERNELS, strict=True):
            convolution = nn.Conv2d(channels, outputs, size, stride)
            assert convolution.bias is not None
            nn.init.orthogonal_(convolution.weight, math.sqrt(2))
            nn.init.zeros_(convolution.bias)
            self.convolutions.append(convolution)
            height, width = (height - size) // stride + 1, (width - size) // stride + 1
            channels = outputs
        self.last = layer(channels * height * width, policy.features, math.sqrt(2))
        self._activation = ACTIVATIONS[policy.activation]

    def forward(self, image: Tensor | Scattered) -> Tensor:
        # Channels stay last in memory, which convolutions on the CPU prefer.
        x = floats(image).permute(0, 3, 1, 2).mul_(1 / 255)
        for convolution in self.convolutions:
            x = self._activation(convolution(x))
        return self._activation(self.last(x.flatten(1)))


class CNNNetwork(Network):
    def __init__(self, policy: CNNPolicy, environment: EnvironmentProgram) -> None:
        super().__init__()
        images = {
            path: tensor.shape
            for path, tensor in environment.obs.items()
            if tensor.dtype == "uint8"
        }
        self.paths = tuple(images)
        self.in_place = frozenset(images)
        self.encoders = nn.ModuleList(
            ImageEncoder(policy, (int(s[0]), int(s[1]), int(s[2]))) for s in images.values()
        )
        self.vector = vectors_of(environment)
        self.normaliser = (
            RunningNormaliser(self.vector.size)
            if policy.normalise_obs and self.vector.size
            else None
        )
        self.observed = self.vector.paths if self.normaliser is not None else ()
        self.head = ActionHead(environment.action, policy.log_std_init)
        sizes = (policy.features * len(images) + self.vector.size, *policy.hidden)
        self.actor = Perceptron((*sizes, self.head.outputs), policy.activation, last_gain=0.01)
        self.critic = Perceptron((*sizes, 1), policy.activation, last_gain=1.0)

    def _features(self, obs: Observation) -> Tensor:
        parts = [encode(obs[path]) for path, encode in zip(self.paths, self.encoders, strict=True)]
        if self.vector.size:
            x = self.vector(obs)
            parts.append(x if self.normaliser is None else self.normaliser(x))
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0]

    def distribution(self, obs: Observation) -> Distribution:
        return self.head.distribution(self.actor(self._features(obs)))

    def value(self, obs: Observation) -> Tensor:
        value: Tensor = self.critic(self._features(obs)).squeeze(-1)
        return value

    def evaluate(self, obs: Observation) -> tuple[Distribution, Tensor]:
        features = self._features(obs)
        return self.head.distribution(self.actor(features)), self.critic(features).squeeze(-1)

    def observe(self, obs: Observation) -> None:
        assert self.normaliser is not None
        self.normaliser.update(self.vector(obs))
