"""PPO with the decoupled objective (Hilton et al. 2022, "Batch size-invariance for policy
optimization"; used for asynchronous data by AReaL, Fu et al. 2025):

    L = -E[ (pi_prox / pi_behav) * min(r A, clip(r, 1 - eps, 1 + eps) A) ],   r = pi_theta / pi_prox

pi_behav is the policy that acted (its log-prob is stored), pi_prox the weights at the start of this
update. Where both are the same weights this is PPO (Schulman et al. 2017).

Invariants: values and pi_prox are computed once, from the weights at the start, so r = 1 before the
first optimizer step; observation statistics change only after the last. Rows without a decision
take part in nothing. The loop over minibatches never waits for a number (`.item()`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ebrl.errors import DivergedError, RunError
from ebrl.frontend.program import EnvironmentProgram, TrainingProgram
from ebrl.stages.learners.answers import answer, evaluate
from ebrl.stages.learners.body import NetworkLearner
from ebrl.stages.learners.gae import gae
from ebrl.stages.learners.objective import Tally, head_gradients
from ebrl.stages.learners.returns import F32, Decisions, decisions
from ebrl.stages.learners.rows import GATHER_BYTES, Rows, slices
from ebrl.stages.learners.vtrace import vtrace
from ebrl.stages.protocols import Batch

if TYPE_CHECKING:
    from ebrl.stages.algorithms import PPO
    from ebrl.stages.base import Policy

PIECE = 4096  # rows evaluated at once where no gradient is needed,
PIECE_BYTES = 1 << 22  # and bytes of observations: pictures grow where they are convolved

_Part = tuple[dict[str, Tensor], Tensor, Tensor]  # observations, actions, columns of `_Data`


class PPOBody(NetworkLearner):
    """`protocols.LearnerBody` of `PPO`."""

    def __init__(
        self,
        settings: PPO,
        policy: Policy,
        environment: EnvironmentProgram,
        training: TrainingProgram,
        *,
        seed: int,
        device: str,
        total_updates: int | None,
    ) -> None:
        super().__init__(policy, environment, seed=seed, device=device, adam_eps=settings.adam_eps)
        self.settings = settings
        self._minibatch = training.minibatch or training.batch
        self._epochs = training.epochs
        self._total_updates = total_updates

    def update(self, batch: Batch, should_stop: Callable[[], bool]) -> dict[str, float]:
        """One update over `batch`; see the module."""
        ranks = self.ranks
        if ranks is not None:
            should_stop = ranks.agreed(should_stop)
        data = self._prepare(batch)
        rate = self._learning_rate()
        tally = Tally(self.settings.clip, data.count, self.device)
        stopped = False
        for _ in range(self._epochs):
            for part in self._minibatches(data):
                if should_stop():
                    stopped = True
                    break
                self._step(part, rate, tally)
            tally.end_epoch()
            if ranks is not None:
                ranks.average(tally.last)
            too_far = self.settings.target_kl is not None and (
                tally.epoch_kl() > self.settings.target_kl
            )
            if stopped or too_far:
                break
        self.updates += 1
        observed = getattr(self.network, "observed", ())
        if observed and not stopped:
            self.network.observe(data.rows.take(data.row, observed))
        if ranks is not None:
            ranks.wait()  # nobody reads the batch any more
        metrics = tally.metrics()
        if not all(np.isfinite(each) for each in metrics.values()):
            raise DivergedError(
                "diverged",
                f"update {self.updates} made the loss non-finite: {metrics}",
                hint="a smaller learning rate or max_grad_norm, or a reward_scale, keeps it finite",
            )
        metrics["train/explained_variance"] = data.explained_variance
        metrics["train/learning_rate"] = rate
        return metrics

    def _learning_rate(self) -> float:
        settings = self.settings
        if settings.anneal is None or not self._total_updates:
            return settings.learning_rate
        done = min(1.0, self.updates / self._total_updates)
        return settings.learning_rate * (1 - done * (1 - settings.anneal))

    def _prepare(self, batch: Batch) -> _Data:
        """Values, pi_prox, advantages: once, with the weights of this moment."""
        settings = self.settings
        segment = batch.segment
        given = decisions(
            batch.reward[segment] * np.float32(settings.reward_scale),
            batch.steps[segment],
            batch.terminated[segment],
            batch.truncated[segment],
            gamma=settings.gamma,
            terminal=settings.terminal,
        )
        in_place: frozenset[str] = getattr(self.network, "in_place", frozenset())
        rows = Rows(batch, self.device, in_place)
        action = torch.from_numpy(batch.action[segment]).to(self.device)
        value, prox = self._evaluate(rows, action)
        behaviour = batch.log_prob[segment]
        log_weight = np.where(given.valid, prox - behaviour, 0).astype(np.float32)
        weight = np.exp(np.minimum(log_weight, np.float32(np.log(settings.behaviour_cap))))
        advantage, target, weight = self._advantages(batch, given, value, weight)
        return _Data(self, given, rows, action, value, prox, weight, advantage, target)

    def _advantages(
        self, _batch: Batch, given: Decisions, value: F32, weight: F32
    ) -> tuple[F32, F32, F32]:
        """Advantages, value targets and the weights of decisions, each [N, T]."""
        settings = self.settings
        if settings.advantages == "vtrace":
            advantage, target = vtrace(
                given,
                value,
                weight,
                rho_clip=settings.rho_clip,
                c_clip=settings.c_clip,
                trace_lambda=settings.gae_lambda,
            )
            return advantage, target, np.minimum(weight, np.float32(settings.rho_clip))
        advantage, target = gae(given, value, settings.gae_lambda)
        return advantage, target, weight

    @torch.no_grad()
    def _evaluate(self, rows: Rows, action: Tensor) -> tuple[F32, F32]:
        """V(obs) [N, T + 1] and log pi_prox(action) [N, T], piece by piece."""
        per_piece = max(1, min(PIECE, PIECE_BYTES // max(1, rows.row_bytes)) // rows.length)
        values, log_probs = [], []
        first, last = 0, rows.segments
        if self.ranks is not None:
            first, last = self.ranks.share(first, last)
        for start in range(first, last, per_piece):
            stop = min(start + per_piece, last)
            index = torch.arange(start * rows.length, stop * rows.length, device=self.device)
            distribution, value = evaluate(self.network, rows.take(index))
            taken = action[start:stop]
            # Row T has no action of its own; any stands in, and its log-prob is dropped.
            padded = torch.cat([taken, taken[:, -1:]], 1).flatten(0, 1)
            values.append(value.view(-1, rows.length))
            log_probs.append(distribution.log_prob(padded).view(-1, rows.length)[:, :-1])
        if self.ranks is None:
            return torch.cat(values).cpu().numpy(), torch.cat(log_probs).cpu().numpy()
        whole = np.zeros((rows.segments, 2 * rows.length - 1), np.float32)
        if values:
            own = torch.cat([torch.cat(values), torch.cat(log_probs)], 1)
            whole[first:last] = own.cpu().numpy()
        whole = self.ranks.filled(whole)
        return whole[:, : rows.length], whole[:, rows.length :]

    def _minibatches(self, data: _Data) -> Iterator[_Part]:
        """Shuffled parts of equal size, as near to `minibatch` as divides the rows evenly."""
        count = data.count
        world = 1 if self.ranks is None else self.ranks.world
        parts = max(1, min(round(count / self._minibatch), count // world))
        order = torch.randperm(count, generator=self.generator).to(self.device)
        bounds = [count * part // parts for part in range(parts + 1)]
        columns = data.columns.index_select(1, order)
        action = data.action.index_select(0, order)
        row = data.row.index_select(0, order)
        obs = data.rows.take(row) if data.small else None
        for whole in pairwise(bounds):
            start, stop = whole if self.ranks is None else self.ranks.share(*whole)
            self._part = (stop - start) / (whole[1] - whole[0])
            yield (
                slices(obs, start, stop) if obs is not None else data.rows.take(row[start:stop]),
                action[start:stop],
                columns[:, start:stop],
            )

    def _step(self, part: _Part, rate: float, tally: Tally) -> None:
        """One optimizer step on one minibatch."""
        obs, action, columns = part
        settings = self.settings
        given = answer(self.network, obs, action)
        gradients = head_gradients(
            given,
            columns,
            clip=settings.clip,
            value_weight=settings.value_weight,
            entropy_weight=settings.entropy,
            tally=tally,
        )
        self.follow(given, gradients, learning_rate=rate, max_grad_norm=settings.max_grad_norm)


class _Data:
    """The decisions of one batch, without the rows that hold none."""

    def __init__(
        self,
        body: PPOBody,
        given: Decisions,
        rows: Rows,
        action: Tensor,
        value: F32,
        prox: F32,
        weight: F32,
        advantage: F32,
        target: F32,
    ) -> None:
        valid = np.flatnonzero(given.valid)
        if not len(valid):
            raise RunError("batch", "the batch holds no decision")
        chosen, goal = advantage.ravel()[valid], target.ravel()[valid]
        before = value[:, :-1].ravel()[valid]
        spread = float(goal.var())
        self.explained_variance = 1 - float((goal - before).var()) / spread if spread > 0 else 0.0
        if body.settings.normalise_advantages:
            chosen = (chosen - chosen.mean()) / (chosen.std() + 1e-8)
        device = body.device
        # Row 0: log pi_prox, 1: weighted advantage, 2: value target.
        self.columns = torch.from_numpy(
            np.stack([prox.ravel()[valid], chosen * weight.ravel()[valid], goal]).astype(np.float32)
        ).to(device)
        at = torch.from_numpy(valid).to(device)
        self.action = action.flatten(0, 1).index_select(0, at)
        horizon = rows.length - 1
        self.row = at + torch.div(at, horizon, rounding_mode="floor")
        self.rows = rows
        self.count = len(valid)
        self.small = device.type != "cpu" or rows.row_bytes * self.count <= GATHER_BYTES
