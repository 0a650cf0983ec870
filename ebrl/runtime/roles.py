"""The three roles of a worker, each read top to bottom: build, get ready, loop until told to stop.

Invariant: a role sleeps on its bell when it has nothing to do, and beats its heart all the while;
what it holds when it ends is accounted for by the states in the slab.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ebrl.runtime import checkpoint
from ebrl.runtime.messages import Episodes, Ready, Saved, Updated
from ebrl.runtime.threads import set_threads, single_thread
from ebrl.runtime.weights import Weights

if TYPE_CHECKING:
    from ebrl.runtime.train import Train
    from ebrl.runtime.worker import Worker

TELL_EVERY_S = 0.2
IDLE_S = 0.5


def simulate(worker: Worker) -> None:
    """Build the environments, stepping those that are there already, then step them all."""
    from ebrl.runtime.simulate import Simulate

    boot = worker.boot
    generate = [
        bell
        for bell, (first, last) in zip(worker.bells_of("generate"), boot.generators, strict=True)
        if first < boot.last and boot.first < last
    ]
    learner = worker.bells_of("train")[0]

    def ring_generate() -> None:
        for bell in generate:
            bell.ring()

    body = Simulate(
        worker.slab,
        worker.segments,
        worker=boot.worker,
        first=boot.first,
        count=boot.last - boot.first,
        group=boot.group,
        seed=boot.seed,
        ring_generate=ring_generate,
        ring_learner=learner.ring,
    )
    stage = worker.stage(boot.stage)
    single_thread()
    told = time.monotonic()
    try:
        for _ in range(boot.last - boot.first):
            if worker.stopping():
                return
            body.add(stage.environment())
            body.sweep()
            worker.beat()
        worker.tell(Ready())
        _settle()
        while not worker.stopping():
            begin = time.perf_counter_ns()
            steps = body.sweep()
            if steps:
                worker.count(time.perf_counter_ns() - begin, steps)
            else:
                worker.bell.wait(IDLE_S)
            worker.beat()
            now = time.monotonic()
            if body.episodes and now - told > TELL_EVERY_S:
                told = now
                worker.tell(_episodes(body.episodes))
    finally:
        if body.episodes:
            worker.tell(_episodes(body.episodes))
        body.close()


def generate(worker: Worker) -> None:
    """Answer observations as they come."""
    from ebrl.runtime.generate import Generate

    boot = worker.boot
    set_threads(boot.threads)
    environment = worker.program.environment
    assert environment is not None
    policy = worker.stage(boot.stage).build(environment, seed=boot.seed, device=boot.device)
    bells = list(zip(worker.bells_of("simulate"), boot.simulators, strict=True))
    weights = Weights(worker.slab)
    while weights.version < 0 and not worker.stopping():
        worker.bell.wait(IDLE_S)
        worker.beat()
    body = Generate(
        worker.slab,
        worker.segments,
        policy,
        first=boot.first,
        last=boot.last,
        batch=boot.batch,
        groups=boot.groups,
        seed=boot.seed,
    )
    worker.tell(Ready())
    _settle()
    while not worker.stopping():
        begin = time.perf_counter_ns()
        envs = body.serve()
        if envs.size:
            for bell, (first, last) in bells:
                position = int(np.searchsorted(envs, first))
                if position < envs.size and envs[position] < last:
                    bell.ring()
            worker.count(time.perf_counter_ns() - begin, int(envs.size))
        else:
            worker.bell.wait(IDLE_S)
        worker.beat()


def train(worker: Worker) -> None:
    """Publish the first weights, then update whenever a batch is there; save at the end."""
    from ebrl.runtime.train import Train

    boot = worker.boot
    set_threads(boot.threads)
    environment, training = worker.program.environment, worker.program.training
    assert environment is not None
    assert training is not None
    total = boot.total_steps
    body = worker.stage(boot.stage).build(
        worker.stage(boot.policy_stage),
        environment,
        training,
        seed=boot.seed,
        device=boot.device,
        total_updates=None if total is None else max(1, -(-total // training.batch)),
    )
    version, trained = 0, 0
    if boot.resume is not None:
        tensors, state = checkpoint.load(Path(boot.resume))
        body.load_state(tensors, state.learner)
        version, trained = state.version, state.trained
    learner = Train(worker.slab, worker.segments, body, version=version)
    simulators = worker.bells_of("simulate")

    def save() -> None:
        folder, state = _save(worker, learner, body, trained)
        worker.tell(Saved(str(folder), state.weights_sha256))

    try:
        learner.publish()
        for bell in (*worker.bells_of("generate"), *simulators):
            bell.ring()
        worker.tell(Ready())
        _settle()
        saved = time.monotonic()
        openings = -2
        while not worker.stopping():
            begin = time.perf_counter_ns()
            update = learner.update(worker.stopping)
            worker.beat()
            if worker.segments.openings != openings:
                openings = worker.segments.openings
                for bell in simulators:
                    bell.ring()
            if update is None:
                worker.bell.wait(IDLE_S)
                continue
            worker.count(time.perf_counter_ns() - begin, update.env_steps)
            trained += update.env_steps
            worker.tell(
                Updated(
                    version=update.version,
                    trained=trained,
                    env_steps=update.env_steps,
                    seconds=update.seconds,
                    staleness_mean=update.staleness_mean,
                    staleness_max=update.staleness_max,
                    metrics=update.metrics,
                )
            )
            if total is not None and trained >= total:
                worker.stop_all()
            elif time.monotonic() - saved > boot.checkpoint_every_s:
                save()
                saved = time.monotonic()
    finally:
        save()


ROLES: dict[str, Callable[[Worker], None]] = {
    "simulate": simulate,
    "generate": generate,
    "train": train,
}


def _save(worker: Worker, learner: Train, body: Any, trained: int) -> tuple[Path, Any]:
    tensors, data = body.state()
    flat = np.empty(worker.slab["weights"].shape[1], np.float32)
    body.write_weights(flat)
    state = checkpoint.State(
        version=learner.version,
        trained=trained,
        graph=worker.program.name,
        program_sha256=worker.program.sha256,
        tensors_sha256="",
        weights_sha256=hashlib.sha256(flat.tobytes()).hexdigest(),
        seed=worker.boot.seed,
        learner=data,
    )
    return checkpoint.save(Path(worker.boot.run_dir) / "checkpoint", tensors, state)


def _episodes(episodes: list[Any]) -> Episodes:
    rows = [(each.environment, each.reward, each.length, each.success) for each in episodes]
    episodes.clear()
    return Episodes(rows)


def _settle() -> None:
    """What was built stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
