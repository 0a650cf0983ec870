"""The gradient of the clipped objective with respect to what the network answers, in closed form.

With r = exp(log pi - log pi_prox) and the weighted advantage A,

    d/d log pi of -mean(min(r A, clip(r, 1 - eps, 1 + eps) A))  =  -r A / n   where unclipped, else
    0

unclipped meaning r < 1 + eps for A > 0 and r > 1 - eps for A < 0. So autograd starts at log-prob,
value and entropy, and a dozen small kernels and their graph are saved per minibatch.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Tally:
    """Sums of the metrics over minibatches, on the device; read once, at the end."""

    def __init__(self, clip: float, device: torch.device) -> None:
        self._low, self._high = 1 - clip, 1 + clip
        self._sums = torch.zeros(5, device=device)
        self._epoch_start = torch.zeros(1, device=device)
        self._count = 0
        self._epoch_count = 0

    def begin_epoch(self) -> None:
        self._epoch_start = self._sums[3:4].clone()
        self._epoch_count = 0

    def add(
        self, *, policy: Tensor, value: Tensor, entropy: Tensor, ratio: Tensor, log_ratio: Tensor
    ) -> None:
        kl = ratio.mean() - 1 - log_ratio.mean()  # Schulman's k3 estimator
        clipped = ((ratio < self._low) | (ratio > self._high)).float().mean()
        self._sums += torch.stack([policy, value, entropy, kl, clipped])
        self._count += 1
        self._epoch_count += 1

    def epoch_kl(self) -> float:
        """Mean approximate KL of the epoch so far."""
        return float(self._sums[3] - self._epoch_start) / max(1, self._epoch_count)

    def metrics(self) -> dict[str, float]:
        names = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")
        means = (self._sums / max(1, self._count)).tolist()
        return {f"train/{name}": mean for name, mean in zip(names, means, strict=True)}


def head_gradients(
    log_prob: Tensor,
    value: Tensor,
    entropy: Tensor,
    columns: Tensor,
    *,
    clip: float,
    value_weight: float,
    entropy_weight: float,
    tally: Tally,
) -> tuple[list[Tensor], list[Tensor]]:
    """Tensors to start autograd from, and the gradient of the loss at each.

    loss = policy + value_weight * mean((value - target)^2) / 2 - entropy_weight * mean(entropy);
    `columns` is [3, n]: log pi_prox, weighted advantage, value target.
    """
    with torch.no_grad():
        prox, advantage, target = columns
        n = len(prox)
        log_ratio = log_prob - prox
        ratio = log_ratio.exp()
        plain = ratio * advantage
        limited = ratio.clamp(1 - clip, 1 + clip) * advantage
        unclipped = plain <= limited
        error = value - target
        tally.add(
            policy=-torch.minimum(plain, limited).mean(),
            value=0.5 * torch.dot(error, error) / n,
            entropy=entropy.mean(),
            ratio=ratio,
            log_ratio=log_ratio,
        )
        outputs = [log_prob, value]
        gradients = [torch.where(unclipped, plain, 0).mul_(-1 / n), error.mul_(value_weight / n)]
        if entropy_weight:
            outputs.append(entropy)
            gradients.append(torch.full_like(entropy, -entropy_weight / n))
    return outputs, gradients
