"""The learner's state through a run: taken up where it was left, kept after each update, saved.

Invariants: after each update its whole state lies in memory that outlives the process, before the
update is committed; so a learner that dies is followed by one that knows everything up to the
published version. Where keeping it costs more than `SHARE` of the time (very large networks, never
with η = 0) it is kept less often; the steps of updates that are lost with the learner are taken
back from `trained` and counted as "learner-lost", and the version goes on. An update that does not
count (see `attempt`) is followed in the same way by the newest state there is, which a copy within
the process, cheaper than what outlives it, makes the one before it. A disk that is full costs
checkpoints, not the run.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ebrl.errors import RunError
from ebrl.runtime import checkpoint
from ebrl.runtime.attempt import LeftOut
from ebrl.runtime.checkpoint import State
from ebrl.runtime.memory import Memory
from ebrl.runtime.messages import Saved, Skipped, Updated, Warned
from ebrl.runtime.rundir import CHECKPOINT
from ebrl.runtime.train import Diverged, Train

if TYPE_CHECKING:
    from ebrl.runtime.worker import Worker

SHARE = 0.02  # of the time, spent on keeping the state in memory


def build(worker: Worker) -> Any:
    """The learner of the user's stage, as the seed makes it."""
    boot = worker.boot
    worker.use_threads(boot.threads)
    environment, training = worker.program.environment, worker.program.training
    assert environment is not None
    assert training is not None
    total = boot.total_steps
    return worker.stage(boot.stage).build(
        worker.stage(boot.policy_stage),
        environment,
        training,
        seed=boot.seed,
        device=boot.device,
        total_updates=None if total is None else max(1, -(-total // training.batch)),
    )


def load(worker: Worker, body: Any) -> tuple[bytes, State] | None:
    """Into `body` what was kept in memory, or else the checkpoint to go on from; None: nothing."""
    worker.segments.settle()
    published = int(worker.slab["weights/version"][0])
    kept = Memory(worker.boot.memory_fds).newest(published) if published >= 0 else None
    if kept is None and worker.boot.resume is not None:
        kept = checkpoint.load_bytes(Path(worker.boot.resume))
    if kept is not None:
        give(body, kept)
    return kept


def give(body: Any, kept: tuple[bytes, State]) -> None:
    """Have `body` take up this state."""
    body.load_state(checkpoint.tensors_of(kept[0], "the learner's state"), kept[1].learner)


def kept_by(worker: Worker) -> tuple[bytes, State] | None:
    """The newest state that was kept in memory; None: nothing was."""
    return Memory(worker.boot.memory_fds).newest(int(worker.slab["weights/version"][0]))


def join(worker: Worker, body: Any) -> None:
    """Meet the other learners, if there are any; returns when all are there."""
    boot = worker.boot
    if boot.ranks == 1:
        return
    if not hasattr(body, "join"):
        raise RunError(
            "learner-alone",
            f"the plan runs `{boot.stage}` as {boot.ranks} learners, but it cannot share its work",
            hint="plan with one learner (--pin), or give it a method join(rank, world, meeting), "
            "as ebrl.stages.learners.body has it",
        )
    body.join(boot.index, boot.ranks, f"/proc/self/fd/{boot.memory_fds[2]}")


@dataclass(frozen=True, slots=True)
class _Copy:
    """A learner's state after the update that made `version`."""

    version: int
    trained: int
    tensors: bytes
    learner: dict[str, Any]


class Learning:
    """The train worker's learner, and everything that must outlive it."""

    def __init__(self, worker: Worker) -> None:
        boot = self._boot = worker.boot
        self._worker = worker
        self._body = build(worker)
        self._memory = Memory(boot.memory_fds)
        self._turn = worker.slab["train/turn"]
        self._batch = worker.slab["train/batch"]
        self._decisions = worker.slab["env/decisions"]
        self._lives = worker.slab["env/lives"]
        self._flat = np.empty(worker.slab["weights"].shape[1], np.float32)
        self._kept: tuple[bytes, State] | None = None
        self._copy: _Copy | None = None
        self._copied_at, self._copying_s = 0.0, 0.0
        self._left_out = LeftOut(boot.patience)
        self._kept_at, self._keeping_s = 0.0, 0.0
        self.trained = 0  # in all runs that this one continues, too
        version = self._take_up()
        self._train = Train(
            worker.slab,
            worker.segments,
            self._body,
            version=version,
            keep=self._keep,
            announce=self._announce if boot.ranks > 1 else None,
        )
        self._saved_at = time.monotonic()
        self._state(version, self.trained)  # the first time imports things, which is no measure
        if self._lost or worker.slab["weights/version"][0] < 0:
            self._keep(version, 0)
            self._train.publish()
        join(worker, self._body)

    @property
    def done(self) -> bool:
        total = self._boot.total_steps
        return total is not None and self.trained >= total

    def update(self) -> bool:
        """Train on a batch if there is one, tell of it, save when it is time."""
        worker = self._worker
        begin = time.perf_counter_ns()
        update = self._train.update(self._should_stop)
        if update is None:
            return False
        worker.count(time.perf_counter_ns() - begin, update.env_steps)
        if isinstance(update, Diverged):
            self._take_back(update)
            return True
        self._left_out.counted()
        self.trained += update.env_steps
        worker.tell(
            Updated(
                version=update.version,
                trained=self.trained,
                env_steps=update.env_steps,
                seconds=update.seconds,
                staleness_mean=update.staleness_mean,
                staleness_max=update.staleness_max,
                metrics=update.metrics,
            )
        )
        if not self.done and self._due(update.version):
            self.save()
        return True

    def save(self) -> None:
        """Write a checkpoint of the last whole update; a disk that does not take it is told of."""
        version = self._train.version
        if self._kept is None or self._kept[1].version != version:
            self._kept = self._state(version, self.trained)
        folder = Path(self._boot.run_dir) / CHECKPOINT
        try:
            path, state = checkpoint.save(folder, *self._kept)
        except OSError as error:
            self._worker.tell(Warned(f"the checkpoint of version {version} is not saved: {error}"))
        else:
            self._worker.tell(Saved(str(path), state.weights_sha256))
        self._saved_at = time.monotonic()

    def hand_on(self) -> None:
        """Leave the whole state to who takes this learner's place while the run goes on."""
        version = self._train.version
        if self._kept is None or self._kept[1].version != version:
            self._kept = self._state(version, self.trained)
        try:
            self._memory.store(*self._kept)
        except OSError as error:
            self._worker.tell(Warned(f"the learner's state is not kept in memory: {error}"))

    # -- what is kept in memory --------------------------------------------------------------------

    def _take_up(self) -> int:
        """Load from memory, a checkpoint, or nothing; returns the version to go on from."""
        worker = self._worker
        kept = load(worker, self._body)
        published = int(worker.slab["weights/version"][0])
        self._lost = False
        if kept is None:
            return 0
        state = kept[1]
        self.trained = state.trained
        if published < 0:  # from the disk
            return state.version
        self._kept = kept
        if state.version == published:
            return published
        self._lost = True
        before = self._boot.trained_before + int(worker.slab["trained"][0])
        worker.segments.forget(before - state.trained)
        return published + 1

    def _take_back(self, update: Diverged) -> None:
        """An update does not count: go on from what was kept before it."""
        version, before = self._train.version, self.trained
        found = self._copy
        if found is None or found.version < version:
            kept = kept_by(self._worker) or self._kept
            assert kept is not None, "the state is kept before the first update"
            data, state = kept
            found = _Copy(state.version, state.trained, data, state.learner)
        tensors = checkpoint.tensors_of(found.tensors, "the learner's state")
        self._body.load_state(tensors, found.learner)
        self.trained = found.trained
        if found.version < version:
            self._worker.segments.forget(before - self.trained)
            self._train.version = version + 1
            self._kept_at = 0.0
            self._keep(version + 1, 0)
            self._train.publish()
        self._worker.tell(
            Skipped(
                version=version,
                env_steps=update.env_steps,
                message=update.why,
                lost=before - self.trained,
            )
        )
        self._left_out.add(self._boot.stage, version, update.why)

    def _keep(self, version: int, env_steps: int) -> None:
        """An update to `version` is computed and about to be committed."""
        now = time.perf_counter()
        if self._boot.max_staleness and now - self._kept_at < self._keeping_s / SHARE:
            # Several learners go back together, to what all of them can read.
            if self._boot.ranks == 1 and now - self._copied_at >= self._copying_s / SHARE:
                self._copy_state(version, self.trained + env_steps)
            return
        begin = time.thread_time()
        self._kept = self._state(version, self.trained + env_steps)
        try:
            self._memory.store(*self._kept)
        except OSError as error:
            self._worker.tell(Warned(f"the learner's state is not kept in memory: {error}"))
        self._kept_at = time.perf_counter()
        self._keeping_s = time.thread_time() - begin

    def _copy_state(self, version: int, trained: int) -> None:
        begin = time.thread_time()
        tensors, data = self._body.state()
        learner = msgspec.to_builtins(data)
        self._copy = _Copy(version, trained, checkpoint.bytes_of(tensors), learner)
        self._copied_at = time.perf_counter()
        self._copying_s = time.thread_time() - begin

    def _state(self, version: int, trained: int) -> tuple[bytes, State]:
        boot, program = self._boot, self._worker.program
        tensors, data = self._body.state()
        self._body.write_weights(self._flat)
        every = boot.checkpoint_every_updates
        return checkpoint.bytes_of(tensors), State(
            version=version,
            trained=trained,
            graph=program.name,
            program_sha256=program.sha256,
            plan_sha256=boot.plan_sha256,
            weights_sha256=hashlib.sha256(self._flat.tobytes()).hexdigest(),
            seed=boot.seed,
            anew=every is not None and version % every == 0,
            decisions=self._decisions.tolist(),
            lives=self._lives.tolist(),
            learner=msgspec.to_builtins(data),
        )

    def _announce(self, chosen: NDArray[np.int64]) -> None:
        """The others take part in this update."""
        self._batch[: chosen.size] = chosen
        self._turn[1] = chosen.size
        self._turn[0] += 1
        for bell in self._worker.bells_of("train"):
            bell.ring()

    def _due(self, version: int) -> bool:
        every = self._boot.checkpoint_every_updates
        if every is not None and version % every == 0:
            return True
        return time.monotonic() - self._saved_at > self._boot.checkpoint_every_s

    def _should_stop(self) -> bool:
        """Whoever is retired ends his update first: it is not to be made again."""
        self._worker.beat()
        return self._worker.run_stopping()
