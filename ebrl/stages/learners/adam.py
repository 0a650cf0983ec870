"""Adam (Kingma & Ba 2015) with clipping by the global norm, over one flat tensor.

One fused kernel updates everything. Buffers among the values have zero gradients always, so their
moments stay zero and the step leaves them exactly as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class FlatAdam:
    def __init__(
        self, values: Tensor, grads: Tensor, *, eps: float, beta1: float = 0.9, beta2: float = 0.999
    ) -> None:
        self._values, self._grads = values, grads
        self._mean = torch.zeros_like(values)
        self._square = torch.zeros_like(values)
        self._step = torch.zeros((), device=values.device)
        self._eps, self._beta1, self._beta2 = eps, beta1, beta2

    @property
    def steps(self) -> int:
        return int(self._step)

    @torch.no_grad()
    def step(self, learning_rate: float, max_norm: float) -> None:
        norm = torch.linalg.vector_norm(self._grads)
        self._grads.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
        self._step += 1
        torch._fused_adam_(
            [self._values],
            [self._grads],
            [self._mean],
            [self._square],
            [],
            [self._step],
            lr=learning_rate,
            beta1=self._beta1,
            beta2=self._beta2,
            weight_decay=0.0,
            eps=self._eps,
            amsgrad=False,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        return {"adam_mean": self._mean, "adam_square": self._square}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        self._mean.copy_(tensors["adam_mean"])
        self._square.copy_(tensors["adam_square"])
        self._step.fill_(steps)
