"""Linear layers with an activation between them, forwards and back.

At the batches of a policy, calling a module costs as much as its arithmetic, so the layers are
applied as functions of their parameters. The way back is written out where the activation's slope
follows from what it answered (tanh, relu): autograd needs twice the time for the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from ebrl.stages.policies.actor_critic import layer

Slope = Callable[[Tensor, Tensor], Tensor]

# In place where the gradient allows.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh_,
    "relu": torch.relu_,
    "elu": nn.functional.elu,
    "silu": nn.functional.silu,
}
# (gradient at the answer, answer) -> gradient at the input.
SLOPES: dict[str, Slope] = {
    "tanh": torch.ops.aten.tanh_backward,
    "relu": lambda gradient, answer: torch.ops.aten.threshold_backward(gradient, answer, 0),
}


class Perceptron(nn.Module):
    """Linear layers of `sizes`, an activation between them, none after the last."""

    def __init__(self, sizes: tuple[int, ...], name: str, *, last_gain: float) -> None:
        super().__init__()
        gains = [math.sqrt(2)] * (len(sizes) - 2) + [last_gain]
        layers = [
            layer(inputs, outputs, gain)
            for (inputs, outputs), gain in zip(pairwise(sizes), gains, strict=True)
        ]
        self.layers = nn.ModuleList(layers)
        self._applied = [(each.weight, each.bias) for each in layers]
        self._activation = ACTIVATIONS[name]
        self._slope = SLOPES.get(name)

    @property
    def reversible(self) -> bool:
        """Can `backward` be used?"""
        return self._slope is not None

    def forward(self, x: Tensor) -> Tensor:
        linear, activate = nn.functional.linear, self._activation
        *hidden, last = self._applied
        for weight, bias in hidden:
            x = activate(linear(x, weight, bias))
        return linear(x, *last)

    def trace(self, x: Tensor) -> list[Tensor]:
        """The input of every layer and the output of the last, for `backward`."""
        linear, activate = nn.functional.linear, self._activation
        *hidden, last = self._applied
        seen = [x]
        for weight, bias in hidden:
            x = activate(linear(x, weight, bias))
            seen.append(x)
        seen.append(linear(x, *last))
        return seen

    def backward(self, seen: list[Tensor], gradient: Tensor) -> None:
        """From d loss/d output [b, outputs]: every parameter's `.grad` is set (not added to)."""
        assert self._slope is not None
        for index in range(len(self._applied) - 1, -1, -1):
            weight, bias = self._applied[index]
            assert weight.grad is not None
            assert bias.grad is not None
            torch.mm(gradient.t(), seen[index], out=weight.grad)
            torch.sum(gradient, 0, out=bias.grad)
            if index:
                gradient = self._slope(gradient.mm(weight), seen[index])
