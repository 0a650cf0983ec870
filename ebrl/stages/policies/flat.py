"""All parameters and floating buffers of a network in one flat tensor, in sorted order of names.

Invariant: every parameter is a view into `values` (and its gradient into `grads`), so publishing,
loading, clipping and the optimizer step are each one pass over contiguous memory, and nothing is
allocated after construction. The order is that of `protocols.Weights`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ebrl.stages.protocols import Weights


def published(network: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor of everything published, sorted by name."""
    named: dict[str, torch.Tensor] = dict(network.named_parameters())
    named.update((name, each) for name, each in network.named_buffers() if each.is_floating_point())
    for name in sorted(named):
        tensor = named[name]
        if tensor.dtype != torch.float32:
            raise TypeError(f"{name} is {tensor.dtype}; networks publish float32")
        yield name, tensor


def shapes(network: torch.nn.Module) -> Weights:
    return {name: tuple(tensor.shape) for name, tensor in published(network)}


class FlatNetwork:
    """`network`, moved to `device`, with its tensors laid into one. `trainable` adds gradients."""

    def __init__(self, network: torch.nn.Module, device: torch.device, *, trainable: bool) -> None:
        self.network = network.to(device)
        self.weights = shapes(self.network)
        tensors = dict(published(self.network))
        total = sum(tensor.numel() for tensor in tensors.values())
        self.values = torch.empty(total, device=device)
        self.grads = torch.zeros(total if trainable else 0, device=device)
        parameters = dict(self.network.named_parameters())
        start = 0
        with torch.no_grad():
            for name, tensor in tensors.items():
                end = start + tensor.numel()
                view = self.values[start:end].view(tensor.shape)
                view.copy_(tensor)
                tensor.data = view
                if name in parameters:
                    parameters[name].requires_grad_(trainable)
                    if trainable:
                        parameters[name].grad = self.grads[start:end].view(tensor.shape)
                start = end
