"""The train worker: takes a batch of segments by index, updates, publishes, gives the segments
back.

Invariants: a segment is trained on once or thrown away with a reason, never both. Its staleness is
measured at the moment of training, on each of its steps. Weights are published before the segments
they were trained on become free, so admission opens for the new version only. An update that made
something non-finite does not count: its batch is thrown away, the version stays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebrl.runtime.attempt import attempt
from ebrl.runtime.segments import Segments
from ebrl.runtime.slab import Slab
from ebrl.runtime.weights import Weights
from ebrl.stages.protocols import Batch, LearnerBody

MARGIN = 1.25  # updates do not all take the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One update as it is told to the run: the version it made, and what it was made of."""

    version: int
    env_steps: int
    seconds: float
    staleness_mean: float
    staleness_max: int
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diverged:
    """An update that does not count. The body must be given its state before it."""

    env_steps: int
    why: str


class Train:
    """The one learner of a run."""

    def __init__(
        self,
        slab: Slab,
        segments: Segments,
        body: LearnerBody,
        *,
        version: int,
        keep: Callable[[int, int], None] | None = None,
        announce: Callable[[NDArray[np.int64]], None] | None = None,
    ) -> None:
        """`keep(version, env_steps)` is called when an update is computed, before it counts,
        `announce(segments)` before it is."""
        self._segments = segments
        self._body = body
        self._keep = keep
        self._announce = announce
        self._weights = Weights(slab)
        self.version = version
        self._obs = slab.observations()
        self._action = slab["action"]
        self._log_prob = slab["log_prob"]
        self._version_of = slab["version"]
        self._reward = slab["reward"]
        self._steps = slab["steps"]
        self._terminated = slab["terminated"]
        self._truncated = slab["truncated"]
        self._began: float | None = None  # when the last update did
        self._headroom: int | None = None

    def publish(self) -> None:
        """Make the learner's weights the newest, as `self.version`."""
        self._body.write_weights(self._weights.begin(self.version))
        self._weights.publish(self.version)

    def update(self, should_stop: Callable[[], bool]) -> Update | Diverged | None:
        """Train on one batch if there is one."""
        chosen = self._segments.take(self.version, self._headroom)
        if chosen is None:
            return None
        begin = time.perf_counter()
        steps = self._steps[chosen]
        env_steps = int(steps.sum(dtype=np.int64))
        staleness = self._staleness_of(chosen, steps)
        if self._announce is not None:
            self._announce(chosen)
        following = self._weights.begin(self.version + 1)
        metrics, why = attempt(self._body, self.batch(chosen), should_stop, following)
        if why:
            self._segments.discard(chosen, "diverged")
            return Diverged(env_steps=env_steps, why=why)
        if should_stop():  # perhaps cut short: not to be called trained
            self._segments.discard(chosen, "interrupted")
            return None
        if self._keep is not None:
            self._keep(self.version + 1, env_steps)
        self.version += 1
        self._segments.commit(chosen, version=self.version, trained=env_steps, staleness=staleness)
        total, count, most = staleness
        seconds = time.perf_counter() - begin
        self._plan_headroom(begin, seconds)
        return Update(
            version=self.version,
            env_steps=env_steps,
            seconds=seconds,
            staleness_mean=total / max(count, 1),
            staleness_max=most,
            metrics=metrics,
        )

    def _plan_headroom(self, begin: float, seconds: float) -> None:
        """How many segments are started during an update, from how busy the last one kept us."""
        if self._began is not None and self._segments.per_environment is None:
            busy = min(1.0, MARGIN * seconds / (begin - self._began))
            self._headroom = math.ceil(busy * self._segments.per_batch)
        self._began = begin

    def batch(self, chosen: NDArray[np.int64]) -> Batch:
        """These segments, as a learner sees them."""
        return Batch(
            segment=chosen,
            obs=self._obs,
            action=self._action,
            log_prob=self._log_prob,
            version=self._version_of,
            reward=self._reward,
            steps=self._steps,
            terminated=self._terminated,
            truncated=self._truncated,
            trained_version=self.version,
        )

    def _staleness_of(
        self, chosen: NDArray[np.int64], steps: NDArray[np.uint8]
    ) -> tuple[int, int, int]:
        """Versions that the batch's steps lie behind: their sum, the number of steps, the most."""
        behind = self.version - self._version_of[chosen]
        most = int(behind[steps > 0].max(initial=0))
        return int((behind * steps).sum()), int(steps.sum(dtype=np.int64)), most
