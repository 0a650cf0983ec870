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

from ebrl.stages.policies.actor_critic import Answer


class Tally:
    """Means of the metrics over the decisions of an update, kept on the device, read at its end."""

    NAMES = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")

    def __init__(self, clip: float, rows: int, device: torch.device) -> None:
        self._low, self._high = 1 - clip, 1 + clip
        # What an epoch saw of every decision: policy term, squared error, entropy, log-ratio.
        self._seen = torch.zeros(4, rows, device=device)
        self._filled = 0
        self._epochs: list[Tensor] = []

    def add(self, *, gain: Tensor, error: Tensor, entropy: Tensor, log_ratio: Tensor) -> None:
        """A minibatch's decisions, each tensor [n]."""
        begin, self._filled = self._filled, self._filled + len(gain)
        torch.stack([gain, error, entropy, log_ratio], out=self._seen[:, begin : self._filled])

    @torch.no_grad()
    def end_epoch(self) -> None:
        """Reduce what the epoch saw to its means."""
        gain, error, entropy, log_ratio = self._seen[:, : self._filled]
        if not self._filled:
            return
        ratio = log_ratio.exp()
        kl = ratio.mean() - 1 - log_ratio.mean()  # Schulman's k3 estimator
        clipped = ((ratio < self._low) | (ratio > self._high)).float().mean()
        means = (-gain.mean(), 0.5 * torch.dot(error, error) / self._filled, entropy.mean())
        self._epochs.append(torch.stack([*means, kl, clipped]))
        self._filled = 0

    @property
    def last(self) -> Tensor:
        """The means of the last epoch, to be averaged over ranks in place."""
        return self._epochs[-1]

    def epoch_kl(self) -> float:
        """Mean approximate KL of the last epoch."""
        return float(self._epochs[-1][3]) if self._epochs else 0.0

    def metrics(self) -> dict[str, float]:
        means = torch.stack(self._epochs).mean(0).tolist() if self._epochs else [0.0] * 5
        return {f"train/{name}": mean for name, mean in zip(self.NAMES, means, strict=True)}


@torch.no_grad()
def head_gradients(
    answer: Answer,
    columns: Tensor,
    *,
    clip: float,
    value_weight: float,
    entropy_weight: float,
    tally: Tally,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The gradient of the loss at log-prob, value and entropy, each [n]; None for zero.

    loss = policy + value_weight * mean((value - target)^2) / 2 - entropy_weight * mean(entropy);
    `columns` is [3, n]: log pi_prox, weighted advantage, value target.
    """
    prox, advantage, target = columns
    n = len(prox)
    entropy = answer.entropy
    log_ratio = answer.log_prob - prox
    ratio = log_ratio.exp()
    plain = ratio * advantage
    limited = ratio.clamp_(1 - clip, 1 + clip).mul_(advantage)
    unclipped = plain <= limited
    error = answer.value - target
    tally.add(gain=torch.minimum(plain, limited), error=error, entropy=entropy, log_ratio=log_ratio)
    return (
        torch.where(unclipped, plain, 0).mul_(-1 / n),
        error.mul_(value_weight / n),
        torch.full_like(entropy, -entropy_weight / n) if entropy_weight else None,
    )
