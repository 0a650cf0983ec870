"""The real worker loops over a private slab, one class a role: what a run executes, fired at will.

Invariant: `fire` does exactly one batch of the size that was last asked for, from inputs that look
like a run's, and returns the items done; everything that is not the stage's work (refilling,
freeing) happens outside the stopwatch.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any, Protocol

import numpy as np

from ebrl.errors import PlanError
from ebrl.runtime.boot import load_stage
from ebrl.runtime.generate import Generate
from ebrl.runtime.profiling.asking import Request
from ebrl.runtime.profiling.rig import RandomActions, fill_actions, fill_observations, private
from ebrl.runtime.profiling.stopwatch import Stopwatch
from ebrl.runtime.segments import NEEDS_ACTION, READY
from ebrl.runtime.simulate import Simulate
from ebrl.runtime.threads import set_threads, single_thread
from ebrl.runtime.train import Train

FEWEST = 2  # environments to build, however long that takes
BUILD_S = 10.0  # then as many as this allows
CUT_AFTER = 4  # minibatches at least


class Body(Protocol):
    """A stage, built. `weights_bytes` 0 where it has none; `memory` as `asking.Ready` says."""

    weights_bytes: int
    environments: int
    memory: tuple[int, int]

    def fire(self, batch: int, watch: Stopwatch) -> tuple[float, int]:
        """Work seconds of one batch, and its items."""
        ...

    def threads(self, count: int) -> None: ...

    def close(self) -> None: ...


class Simulating:
    """Environments that step random actions. `batch` does not matter: each steps on its own; what
    is told is the time of one environment step."""

    weights_bytes = 0

    def __init__(self, request: Request) -> None:
        wanted = request.environments
        self._slab, self._pool = private(request.program, wanted, 2 * wanted + 1, weights_bytes=0)
        self._slab["weights/version"][0] = 0
        self._body = Simulate(
            self._slab,
            self._pool,
            worker=0,
            first=0,
            count=wanted,
            group=wanted,
            seed=0,
            ring_generate=_nothing,
            ring_learner=_nothing,
        )
        stage = _stage(request, request.stage)
        single_thread()
        sizes: list[int] = []
        give_up = time.monotonic() + BUILD_S
        while len(sizes) < wanted and (len(sizes) < FEWEST or time.monotonic() < give_up):
            self._body.add(stage.environment())
            self._body.sweep()
            self._look_for_failures()
            sizes.append(resident_bytes())
        self.environments = len(sizes)
        self.memory = (sizes[0], sizes[-1])
        self._answer = RandomActions(request.program, self._slab)

    def fire(self, batch: int, watch: Stopwatch) -> tuple[float, int]:
        del batch
        self._answer()
        watch.start()
        steps = self._body.sweep()
        seconds = watch.stop()
        self._look_for_failures()
        done = np.flatnonzero(self._slab["segment/state"] == READY)
        if done.size:
            self._pool.release(done)
        self._body.episodes.clear()
        return seconds, steps

    def _look_for_failures(self) -> None:
        """A run would build another one; a measurement has nothing to go on with."""
        if self._body.failures:
            first = self._body.failures[0]
            raise PlanError(
                "measuring-failed",
                f"an environment failed while it was measured: {first.message}",
                where=first.where,
                hint="its traceback is above; `ebrl doctor` says what this machine lacks",
            )

    def threads(self, count: int) -> None:
        del count
        single_thread()

    def close(self) -> None:
        self._body.close()


class Generating:
    """A policy that answers `batch` environments at once."""

    environments = 0

    def __init__(self, request: Request) -> None:
        program = request.program
        assert program.environment is not None
        self._policy = _stage(request, request.stage).build(
            program.environment, seed=0, device=request.device
        )
        self.weights_bytes = 4 * sum(math.prod(shape) for shape in self._policy.weights().values())
        most = max(1, request.environments)
        self._slab, self._pool = private(program, most, most, self.weights_bytes)
        learner = _learner(request, "cpu")
        learner.write_weights(self._slab["weights"][0])
        del learner
        self._slab["weights/version"][0] = 0
        fill_observations(self._slab)
        self._slab["env/segment"][:] = np.arange(most)
        self._bodies: dict[int, Generate] = {}
        self.memory = (resident_bytes(),) * 2

    def fire(self, batch: int, watch: Stopwatch) -> tuple[float, int]:
        body = self._bodies.get(batch)
        if body is None:
            body = self._bodies[batch] = Generate(
                self._slab,
                self._pool,
                self._policy,
                first=0,
                last=batch,
                batch=batch,
                groups=((0, batch),),
                seed=0,
            )
        self._slab["env/state"][:batch] = NEEDS_ACTION
        watch.start()
        body.serve()
        return watch.stop(), batch

    def threads(self, count: int) -> None:
        set_threads(count)

    def close(self) -> None:
        self._bodies.clear()


class Training:
    """A learner that updates on whole batches; one that takes longer than `patience_s` is cut
    short, and what its minibatches took is scaled to all of them."""

    environments = 0

    def __init__(self, request: Request) -> None:
        program = request.program
        assert program.environment is not None
        assert program.training is not None
        training = program.training
        self._body = _learner(request, request.device)
        chunk = program.environment.action.chunk
        self._per_batch = math.ceil(training.batch / (training.horizon * chunk))
        self.weights_bytes = 4 * sum(math.prod(shape) for shape in self._body.weights().values())
        slab, pool = private(
            program, 1, self._per_batch, self.weights_bytes, per_batch=self._per_batch
        )
        fill_observations(slab)
        slab["steps"][:] = chunk
        slab["log_prob"][:] = -1.0
        slab["reward"][:] = np.random.default_rng(0).standard_normal(slab["reward"].shape)
        fill_actions(program, slab["action"], np.random.default_rng(0))
        self._slab = slab
        self._learner = Train(slab, pool, self._body, version=0)
        self._learner.publish()
        self._minibatches = training.epochs * math.ceil(
            training.batch / (training.minibatch or training.batch)
        )
        self._batch = training.batch
        self._patience_s = request.patience_s
        self.memory = (resident_bytes(),) * 2

    def fire(self, batch: int, watch: Stopwatch) -> tuple[float, int]:
        assert batch == self._batch, "an update is one whole batch"
        self._slab["segment/state"][:] = READY
        self._slab["version"][:] = self._learner.version
        self._slab["started"][0] = self._per_batch
        asked = 0
        first_s = 0.0
        begin = time.perf_counter()
        give_up = time.monotonic() + self._patience_s

        def should_stop() -> bool:
            nonlocal asked, first_s
            asked += 1
            if asked == 1:
                first_s = time.perf_counter() - begin
            return asked > CUT_AFTER and time.monotonic() > give_up

        watch.start()
        update = self._learner.update(should_stop)
        seconds = watch.stop()
        if update is not None:
            return seconds, batch
        wall = time.perf_counter() - begin
        done = asked - 2  # the last asking is the loop's own, after the update gave up
        before = seconds * min(1.0, first_s / max(wall, 1e-9))  # gathering: not done again
        return before + (seconds - before) / done * self._minibatches, batch

    def threads(self, count: int) -> None:
        set_threads(count)

    def close(self) -> None:
        """Nothing to give back."""


def build(request: Request) -> Body:
    """The body of a role."""
    kinds: dict[str, type[Simulating] | type[Generating] | type[Training]] = {
        "simulate": Simulating,
        "generate": Generating,
        "train": Training,
    }
    return kinds[request.role](request)


def resident_bytes() -> int:
    """Resident bytes of this process that are its own, or shared files it has touched."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _learner(request: Request, device: str) -> Any:
    program = request.program
    name = next(stage.name for stage in program.stages if stage.kind == "train")
    return _stage(request, name).build(
        _stage(request, request.policy_stage),
        program.environment,
        program.training,
        seed=0,
        device=device,
        total_updates=None,
    )


def _stage(request: Request, name: str) -> Any:
    return load_stage(request.graph, request.graph_sha256, name)


def _nothing() -> None:
    """No bell to ring here."""
