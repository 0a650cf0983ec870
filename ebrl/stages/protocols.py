"""What a stage does inside a worker process: three small protocols, and the batch that learners
see.

Invariants of a segment (T consecutive decisions of one environment, k actions each):
- Row t with `steps[t] > 0` is one decision: from `obs[t]`, `action[t]` was taken, `steps[t]`
  actions of the chunk were executed (fewer than k where the episode ended), `reward[t, :steps[t]]`
  collected, and `obs[t+1]` is the observation after it: the FINAL one where the episode ended.
- After a row that ended an episode, row t+1 (if there is one) has `steps == 0`: it holds only that
  final observation; no action was taken, and `obs[t+2]` is the first observation of the next
  episode. So the value that follows row t is always that of `obs[t+1]`, times `1 - terminated[t]`,
  and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Weights = Mapping[str, tuple[int, ...]]  # name → shape, float32, in sorted order of names


class StepResult(NamedTuple):
    """One environment step. `success` is None where the environment does not define it."""

    reward: float
    terminated: bool
    truncated: bool
    success: bool | None


class Environment(Protocol):
    """One environment. `obs` holds writable views (path → array) of the cell to fill."""

    def reset(self, seed: int | None, obs: Mapping[str, Array]) -> None:
        """Start an episode and write its first observation."""
        ...

    def step(self, action: Array, obs: Mapping[str, Array]) -> StepResult:
        """One step; writes the observation after it (the final one if the episode ended)."""
        ...

    def close(self) -> None: ...


class InPlace(NamedTuple):
    """Observations that were not gathered: rows of a pool, to be read where they lie."""

    pool: Array  # [cells, *shape]
    rows: NDArray[np.int64]  # [b]


class PolicyBody(Protocol):
    """The policy inside a generate worker."""

    noise_size: (
        int  # random numbers per decision; same (seed, environment, step) gives the same ones
    )
    noise_kind: Literal["normal", "uniform"]

    def weights(self) -> Weights: ...

    def load_weights(self, flat: NDArray[np.float32]) -> None:
        """Take the published parameters and buffers, raveled, in sorted order of names."""
        ...

    def act(
        self, obs: Mapping[str, Array | Any], noise: NDArray[np.float32]
    ) -> tuple[Array, NDArray[np.float32]]:
        """Observations [b, ...] and noise [b, noise_size] → actions [b, (k,) ...] and log-probs
        [b].

        Paths that the body names in an attribute `in_place` come as `InPlace`. The action is the
        raw sample, unclipped. Results may be reused buffers, valid until the next call.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """N segments, as whole-pool views of the slab plus the indices of the segments to train on."""

    segment: NDArray[np.int64]  # [N] indices into the pool axis below
    obs: dict[str, Array]  # path → [pool, T + 1, *shape]
    action: Array  # [pool, T, (k,) *shape]
    log_prob: NDArray[np.float32]  # [pool, T], of the behaviour policy
    version: NDArray[np.int64]  # [pool, T], weights version that chose the action
    reward: NDArray[np.float32]  # [pool, T, k]
    steps: NDArray[np.uint8]  # [pool, T], environment steps executed; 0: no decision, see above
    terminated: NDArray[np.bool_]  # [pool, T]
    truncated: NDArray[np.bool_]  # [pool, T]
    trained_version: int  # the version that this update starts from


class LearnerBody(Protocol):
    """The learner inside a train worker."""

    def weights(self) -> Weights: ...

    def write_weights(self, flat: NDArray[np.float32]) -> None:
        """Copy what is to be published, in the order `PolicyBody.load_weights` reads."""
        ...

    def update(self, batch: Batch, should_stop: Callable[[], bool]) -> dict[str, float]:
        """One update; returns metrics named as TensorBoard shows them ("train/approx_kl", …).

        `should_stop` is asked between minibatches; when it says yes, return early with what there
        is. DivergedError where something became non-finite: this update is left out, and the state
        before it loaded again.
        """
        ...

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Tensors (name → torch tensor) and plain data: everything that resuming needs."""
        ...

    def load_state(self, tensors: Mapping[str, Any], data: Mapping[str, Any]) -> None: ...
