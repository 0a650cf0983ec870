"""Stages that take the time of the real ones and answer tensors of the declared shapes.

Invariant: they keep the protocols of `ebrl.stages.protocols`, so the worker loops run unchanged.
What they write is zeros; episodes end at the graph's limit, or never.
"""

# ruff: noqa: ARG002 (the protocols' arguments are not all of use here)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.plan import Program
from ebrl.runtime.emulation.cue import Cue
from ebrl.runtime.emulation.pace import Pace
from ebrl.stages.protocols import Array, Batch, StepResult, Weights


class EmulatedStage:
    """Stands in for the user's stage of any kind; see `ebrl.stages.base`."""

    def __init__(self, program: Program, pace: Pace, cue: Cue) -> None:
        self._program = program
        self._pace = pace
        self._weights = cue.weights
        self._together = cue.loads[0].together

    def environment(self) -> EmulatedEnvironment:
        assert self._program.environment is not None
        limit = self._program.environment.max_episode_steps
        return EmulatedEnvironment(limit, None if self._together else self._pace)

    def sweeping(self, count: int) -> None:
        """A simulator that steps its environments together takes its time once for all."""
        if self._together:
            assert self._program.environment is not None
            for _ in range(self._program.environment.action.chunk):
                self._pace.call(count)

    def build(self, *_: Any, **__: Any) -> Any:
        """The body of a policy or of a learner: what it is told says which it plays."""
        return EmulatedBody(self._program, self._pace, self._weights)


class EmulatedEnvironment:
    """`protocols.Environment`."""

    def __init__(self, limit: int | None, pace: Pace | None) -> None:
        self._limit = limit
        self._pace = pace
        self._elapsed = 0

    def reset(self, seed: int | None, obs: Mapping[str, Array]) -> None:
        self._elapsed = 0
        self._write(obs)

    def step(self, action: Array, obs: Mapping[str, Array]) -> StepResult:
        if self._pace is not None:
            self._pace.call(1)
        self._elapsed += 1
        self._write(obs)
        return StepResult(0.0, False, self._elapsed == self._limit, None)

    def close(self) -> None:
        """Nothing to close."""

    def _write(self, obs: Mapping[str, Array]) -> None:
        for array in obs.values():  # as many bytes as a real one would write
            array[...] = 0


class EmulatedBody:
    """`protocols.PolicyBody` and `protocols.LearnerBody`."""

    noise_size = 1
    noise_kind: Literal["normal", "uniform"] = "uniform"

    def __init__(self, program: Program, pace: Pace, weights: int) -> None:
        assert program.environment is not None
        action = program.environment.action.tensor
        self._action = (tuple(int(size) for size in action.shape), np.dtype(action.dtype))
        self._pace = pace
        self._size = weights
        self.updates = 0

    def weights(self) -> Weights:
        return {"weights": (self._size,)}

    def load_weights(self, flat: NDArray[np.float32]) -> None:
        """Nothing learns here."""

    def act(
        self, obs: Mapping[str, Array], noise: NDArray[np.float32]
    ) -> tuple[Array, NDArray[np.float32]]:
        shape, dtype = self._action
        self._pace.call(len(noise))
        return np.zeros((len(noise), *shape), dtype), np.zeros(len(noise), np.float32)

    def write_weights(self, flat: NDArray[np.float32]) -> None:
        flat[:] = self.updates

    def update(self, batch: Batch, should_stop: Callable[[], bool]) -> dict[str, float]:
        self._pace.update()
        self.updates += 1
        return {}

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {"updates": self.updates}

    def load_state(self, tensors: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        self.updates = int(data["updates"])
