"""What a network answers to a minibatch, by autograd where the network has not written the way
back itself.

A network of a user's own that knows its gradients in closed form has

    def answer(self, obs: Mapping[str, Tensor], action: Tensor) -> Answer | None

(None: only autograd knows). Any other needs nothing: `Traced` runs `evaluate` under autograd.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ebrl.stages.policies.actor_critic import Answer, Distribution


def answer(network: Any, obs: Mapping[str, Tensor], action: Tensor) -> Answer:
    """The network's answer to observations [b, ...] and the actions that were taken."""
    written = getattr(network, "answer", None)
    found = None if written is None else written(obs, action)
    return Traced(network, obs, action) if found is None else found


def evaluate(network: Any, obs: Mapping[str, Tensor]) -> tuple[Distribution, Tensor]:
    """Distribution and value [b], in one pass where the network shares layers between them."""
    both = getattr(network, "evaluate", None)
    if both is not None:
        distribution, value = both(obs)
        return distribution, value
    return network.distribution(obs), network.value(obs)


class Traced:
    """`Answer` by autograd."""

    def __init__(self, network: Any, obs: Mapping[str, Tensor], action: Tensor) -> None:
        distribution, self.value = evaluate(network, obs)
        self.log_prob = distribution.log_prob(action)
        self.entropy = distribution.entropy()

    def backward(self, log_prob: Tensor, value: Tensor, entropy: Tensor | None) -> None:
        outputs, gradients = [self.log_prob, self.value], [log_prob, value]
        if entropy is not None and self.entropy.requires_grad:
            outputs.append(self.entropy)
            gradients.append(entropy)
        torch.autograd.backward(outputs, gradients)
