"""The learners beside the first one: they compute their share of its updates, and decide nothing.

Invariant: all of them begin from one state (the newest kept, or the seed's), and take part in every
update that the first one announces, in order; so they hold the same weights after each. An update
that does not count is found out by each, from the same weights, and taken back by each. When one
dies, all are started again together.
"""

from __future__ import annotations

import numpy as np

from ebrl.errors import RunError
from ebrl.runtime import learning
from ebrl.runtime.attempt import attempt
from ebrl.runtime.train import Train
from ebrl.runtime.worker import Worker


class Following:
    """A learner of rank one or more."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._turn = worker.slab["train/turn"]
        self._batch = worker.slab["train/batch"]
        self._seen = int(self._turn[0])  # before the first one can announce anything
        self._body = learning.build(worker)
        learning.load(worker, self._body)
        learning.join(worker, self._body)
        self._train = Train(worker.slab, worker.segments, self._body, version=0)
        self._flat = np.empty(worker.slab["weights"].shape[1], np.float32)

    def update(self) -> bool:
        """Take part in an update, if one is announced."""
        turn, count = (int(each) for each in self._turn)
        if turn == self._seen:
            return False
        self._seen = turn
        self._train.version = int(self._worker.slab["weights/version"][0])
        chosen = np.array(self._batch[:count])
        batch = self._train.batch(chosen)
        _, why = attempt(self._body, batch, self._should_stop, self._flat)
        if why:
            kept = learning.kept_by(self._worker)
            if kept is None:
                raise RunError("diverged", f"{why}, and nothing was kept from before")
            learning.give(self._body, kept)
        return True

    def _should_stop(self) -> bool:
        self._worker.beat()
        return self._worker.stopping()
