"""The generate worker: answers every environment that has an observation, in dynamic batches.

Invariants: it takes only environments whose state is NEEDS_ACTION and gives each back as NEEDS_STEP
after action, log-prob and version are written. It changes weights between batches, never within
one. It never waits for a batch to fill: what is ready when it looks is the batch, up to the planned
size. In the synchronous mode (η = 0) alone the composition is fixed: a group is answered when none
of its environments is still being stepped, since the rounding of a sum depends on who shares the
batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebrl.runtime.noise import Noise
from ebrl.runtime.segments import NEEDS_ACTION, NEEDS_STEP, PARKED, Segments
from ebrl.runtime.slab import Slab
from ebrl.runtime.weights import Weights
from ebrl.stages.protocols import InPlace, PolicyBody


class Generate:
    """Serves environments [first, last) of the run, at most `batch` at once."""

    def __init__(
        self,
        slab: Slab,
        segments: Segments,
        body: PolicyBody,
        *,
        first: int,
        last: int,
        batch: int,
        groups: Sequence[tuple[int, int]],
        seed: int,
    ) -> None:
        self._segments = segments
        self._body = body
        self._weights = Weights(slab)
        self._flat = np.empty(self._weights.size, np.float32)
        self.version = -1
        self._first, self._last, self._batch = first, last, batch
        self._groups = groups  # of the synchronous mode; none larger than a batch
        self._turn = first  # where the next look begins: nobody twice before another
        self._state = slab["env/state"]
        self._segment = slab["env/segment"]
        self._cursor = slab["env/cursor"]
        self._decisions = slab["env/decisions"]
        self._env_started = slab["env/started"]
        self._action = slab["action"]
        self._log_prob = slab["log_prob"]
        self._version_of = slab["version"]
        self._rows = self._version_of.shape[1] + 1  # observation cells of a segment
        self._obs = {
            path: array.reshape(-1, *array.shape[2:]) for path, array in slab.observations().items()
        }
        self._in_place: frozenset[str] = getattr(body, "in_place", frozenset())
        self._staging = {
            path: np.empty((batch, *array.shape[1:]), array.dtype)
            for path, array in self._obs.items()
            if path not in self._in_place
        }
        self._noise = Noise(
            seed=seed, first=first, last=last, size=body.noise_size, kind=body.noise_kind
        )

    def tune(self, *, batch: int) -> None:
        """At most so many at once from now on; 0: as before. At η = 0 the groups stay."""
        if not batch or batch == self._batch or self._segments.per_environment is not None:
            return
        self._batch = batch
        if any(len(array) < batch for array in self._staging.values()):
            self._staging = {
                path: np.empty((batch, *array.shape[1:]), array.dtype)
                for path, array in self._staging.items()
            }

    def serve(self) -> NDArray[np.int64]:
        """Answer one batch; returns the environments that got an action (sorted), maybe none."""
        envs = self._ready() if self._segments.per_environment is None else self._ready_group()
        if envs.size == 0:
            return envs
        if self.version != self._weights.version:
            self.version = self._weights.read(self._flat)
            self._body.load_weights(self._flat)
        segments, cursors = self._segment[envs], self._cursor[envs]
        cells = segments * self._rows + cursors
        obs: dict[str, Any] = {
            path: np.take(self._obs[path], cells, axis=0, out=into[: envs.size], mode="clip")
            for path, into in self._staging.items()
        }
        for path in self._in_place:
            obs[path] = InPlace(self._obs[path], cells)
        decisions = self._decisions[envs]
        action, log_prob = self._body.act(obs, self._noise.draw(envs, decisions))
        if not isfinite(log_prob.sum()):
            raise FloatingPointError(f"the policy answers {log_prob.tolist()} as log-probs")
        self._action[segments, cursors] = action
        self._log_prob[segments, cursors] = log_prob
        self._version_of[segments, cursors] = self.version
        self._decisions[envs] = decisions + 1
        self._state[envs] = NEEDS_STEP
        return envs

    def _ready(self) -> NDArray[np.int64]:
        """Who has an observation, at most a batch, beginning where the last look ended."""
        mine = self._state[self._first : self._last]
        envs = np.flatnonzero(mine == NEEDS_ACTION) + self._first
        if envs.size > self._batch:
            begin = int(np.searchsorted(envs, self._turn))
            envs = np.roll(envs, -begin)[: self._batch]
            self._turn = int(envs[-1]) + 1
            envs.sort()
        return envs

    def _ready_group(self) -> NDArray[np.int64]:
        """A group in which nobody is being stepped or about to start."""
        for first, last in self._groups:
            state = self._state[first:last].copy()
            envs = np.flatnonzero(state == NEEDS_ACTION) + first
            if envs.size and self._settled(first, last, state):
                return envs
        return np.empty(0, np.int64)

    def _settled(self, first: int, last: int, state: NDArray[np.uint8]) -> bool:
        """True when every environment of the group waits for an action, or for the next version.

        The version is read after the states: if the learner published in between, whoever is parked
        may start again and is waited for.
        """
        quota = self._segments.per_environment
        assert quota is not None
        allowed = quota * (self._weights.version + 1)
        parked = state == PARKED
        done = parked & (self._env_started[first:last] >= allowed)
        return bool(np.all(done | (state == NEEDS_ACTION)))
