"""What a network answers: a distribution over actions, and a value.

A network of a user's own is any `torch.nn.Module` with

    def distribution(self, obs: Mapping[str, Tensor]) -> Distribution   # obs: path → [b, ...]
    def value(self, obs: Mapping[str, Tensor]) -> Tensor                # [b]

and, where both share layers, `evaluate(obs) -> (distribution, value)` so that an update runs the
shared part once. `Categorical` and `Gaussian` below are the two distributions.

Invariant: an action is a function of the distribution's parameters and of noise handed in, so the
same noise gives the same action whoever shares the batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from ebrl.frontend.program import ActionProgram

Observation = Mapping[str, Tensor]


class Distribution(Protocol):
    """A batch of action distributions; actions are [b, (k,) *shape]."""

    def sample(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Noise [b, noise_size] → actions and their log-probs [b]."""
        ...

    def log_prob(self, action: Tensor) -> Tensor: ...

    def entropy(self) -> Tensor:
        """[b], in nats, summed over the actions of a chunk."""
        ...


class Answer(Protocol):
    """What a network says of a minibatch, and the way back: a loss's gradients at the three become
    gradients of the parameters, in `.grad`."""

    log_prob: Tensor  # [b], of the actions that were taken
    value: Tensor  # [b]
    entropy: Tensor  # [b]

    def backward(self, log_prob: Tensor, value: Tensor, entropy: Tensor | None) -> None:
        """From d loss/d log_prob, d loss/d value and d loss/d entropy, each [b]; None for zero."""
        ...


class Network(nn.Module):
    """The base of our own networks. `observed`: paths that running statistics are kept of.
    `in_place`: paths that it takes as `Scattered`, too.
    """

    observed: tuple[str, ...] = ()
    in_place: frozenset[str] = frozenset()

    def distribution(self, obs: Observation) -> Distribution:
        raise NotImplementedError

    def value(self, obs: Observation) -> Tensor:
        raise NotImplementedError

    def evaluate(self, obs: Observation) -> tuple[Distribution, Tensor]:
        return self.distribution(obs), self.value(obs)

    def observe(self, obs: Observation) -> None:
        """Update running statistics with the `observed` of a training batch, after an update."""


def noise_of(action: ActionProgram) -> tuple[int, Literal["normal", "uniform"]]:
    """How many random numbers one decision takes, and of which kind."""
    if action.kind == "discrete":
        return action.n * action.chunk, "uniform"
    return math.prod(action.shape) * action.chunk, "normal"


class Categorical:
    """One choice out of n, from logits [b, n] or [b, k, n]."""

    __slots__ = ("_log_p", "logits")

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self._log_p: Tensor | None = None

    @property
    def log_p(self) -> Tensor:
        if self._log_p is None:
            self._log_p = torch.log_softmax(self.logits, -1)
        return self._log_p

    def sample(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The Gumbel-max trick on uniform noise u, as a race: argmax p / (-log u)."""
        p = torch.softmax(self.logits, -1)
        action = torch.argmin(p / noise.view(p.shape).log(), -1)
        log_prob = p.gather(-1, action.unsqueeze(-1)).squeeze(-1).log_()
        return action, log_prob if log_prob.dim() == 1 else log_prob.sum(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        chosen = self.log_p.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        return chosen if chosen.dim() == 1 else chosen.sum(-1)

    def entropy(self) -> Tensor:
        each = -(self.log_p.exp() * self.log_p).sum(-1)
        return each if each.dim() == 1 else each.sum(-1)

    def gradient(self, action: Tensor, log_prob: Tensor, entropy: Tensor | None) -> Tensor:
        """d loss/d logits: g (onehot - p) of a log-prob, -p (log p + H) of an entropy."""
        wide = (-1, *[1] * (self.logits.dim() - 1))
        log_p, taken = self.log_p, log_prob.view(wide)
        p = log_p.exp()
        slope = -taken
        if entropy is not None:
            slope = slope - entropy.view(wide) * (log_p - (p * log_p).sum(-1, keepdim=True))
        chosen = action.unsqueeze(-1)
        return (p * slope).scatter_add_(-1, chosen, taken.expand(chosen.shape))


class Gaussian:
    """Independent normals, from means [b, (k,) *shape] and a log-std that broadcasts to them."""

    __slots__ = ("_log_scale", "log_std", "mean")

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean = mean
        self.log_std = log_std
        # The part of the log-prob that no action changes, once for the batch.
        repeats = mean[0].numel() // log_std.numel() if len(mean) else 1
        self._log_scale = repeats * (log_std.sum() + 0.5 * math.log(2 * math.pi) * log_std.numel())

    def sample(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        action = torch.addcmul(self.mean, noise.view(self.mean.shape), self.log_std.exp())
        return action, (noise * noise).sum(-1).mul_(-0.5).sub_(self._log_scale)

    def log_prob(self, action: Tensor) -> Tensor:
        scaled = ((action - self.mean) * torch.exp(-self.log_std)).flatten(1)
        return -0.5 * (scaled * scaled).sum(-1) - self._log_scale

    def entropy(self) -> Tensor:
        count = self.mean[0].numel() if len(self.mean) else 0
        return (self._log_scale + 0.5 * count).expand(len(self.mean))

    def gradient(
        self, action: Tensor, log_prob: Tensor, entropy: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """d loss/d mean and d loss/d log_std: with z = (a - mean) / std, z / std and z^2 - 1."""
        taken = log_prob.view(-1, *[1] * (self.mean.dim() - 1))
        inverse = torch.exp(-self.log_std)
        scaled = (action - self.mean) * inverse
        mean = scaled * taken
        spread = torch.addcmul(-taken, mean, scaled)
        if entropy is not None:
            spread = spread + entropy.view(taken.shape)
        return mean.mul_(inverse), spread.sum_to_size(self.log_std.shape)


class ActionHead(nn.Module):
    """What an actor's outputs mean: logits, or means beside a log-std that this holds."""

    def __init__(self, action: ActionProgram, log_std_init: float) -> None:
        super().__init__()
        chunk = (action.chunk,) if action.chunk > 1 else ()
        self.discrete = action.kind == "discrete"
        self.shape = (*chunk, action.n) if self.discrete else (*chunk, *action.shape)
        if not self.discrete:
            self.log_std = nn.Parameter(torch.full(tuple(action.shape), float(log_std_init)))

    @property
    def outputs(self) -> int:
        return math.prod(self.shape)

    def distribution(self, out: Tensor) -> Categorical | Gaussian:
        """Of an actor's outputs [b, outputs]."""
        shaped = out if len(self.shape) == 1 else out.view(-1, *self.shape)
        return Categorical(shaped) if self.discrete else Gaussian(shaped, self.log_std)

    def backward(
        self,
        distribution: Categorical | Gaussian,
        action: Tensor,
        log_prob: Tensor,
        entropy: Tensor | None,
    ) -> Tensor:
        """d loss/d outputs [b, outputs]; the log-std's gradient goes to its `.grad`."""
        if isinstance(distribution, Categorical):
            return distribution.gradient(action, log_prob, entropy).view(len(log_prob), -1)
        out, log_std = distribution.gradient(action, log_prob, entropy)
        assert self.log_std.grad is not None
        self.log_std.grad.copy_(log_std)
        return out.view(len(log_prob), -1)


def layer(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """A linear layer, orthogonal with zero bias, as in CleanRL (Engstrom et al. 2020)."""
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made
