"""A running mean and variance of observations, kept as buffers and so published with the weights.

Invariant: statistics change only in `update`, which the learner calls after its optimizer steps.
Until the first call they are zero and one: observations pass unchanged.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

VARIANCE_FLOOR = 1e-4
CLIP = 5.0


class RunningNormaliser(nn.Module):
    """(x - mean) / sqrt(var + 1e-4), clipped to ±5; x is [b, size]."""

    mean: Tensor
    var: Tensor
    count: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean) * torch.rsqrt(self.var + VARIANCE_FLOOR)).clamp_(-CLIP, CLIP)

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Join a batch's moments to those before it (Chan et al. 1979), in double precision."""
        count = self.count.double()
        batch = x.double()
        mean, var = batch.mean(0), batch.var(0, unbiased=False)
        total = count + len(batch)
        delta = mean - self.mean.double()
        share = len(batch) / total
        joined = self.var.double() * (1 - share) + var * share + delta**2 * share * (1 - share)
        self.mean.add_((delta * share).float())
        self.var.copy_(joined.float())
        self.count.copy_(total.float())
