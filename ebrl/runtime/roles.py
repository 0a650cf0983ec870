"""The three roles of a worker, each read top to bottom: build, get ready, loop until told to stop.

Invariant: a role sleeps on its bell when it has nothing to do, and beats its heart all the while;
what it holds when it ends is accounted for by the states in the slab.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ebrl.runtime.messages import EnvironmentFailed, Episodes, Ready
from ebrl.runtime.threads import single_thread
from ebrl.runtime.weights import Weights

if TYPE_CHECKING:
    from ebrl.runtime.simulate import Simulate
    from ebrl.runtime.worker import Worker

TELL_EVERY_S = 0.2
IDLE_S = 0.5
DRAIN_S = 10.0


def simulate(worker: Worker) -> None:
    """Build the environments, stepping those that are there already, then step them all."""
    from ebrl.runtime.seats import Rules
    from ebrl.runtime.simulate import Simulate

    boot = worker.boot
    generate = [
        bell
        for bell, (first, last) in zip(worker.bells_of("generate"), boot.generators, strict=False)
        if first < boot.last and boot.first < last
    ]
    learner = worker.bells_of("train")[0]

    def ring_generate() -> None:
        for bell in generate:
            bell.ring()

    training = next(each.name for each in worker.program.stages if each.kind == "train")
    learner_stage = worker.stage(training)
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
        beat=worker.beat,
        rules=Rules(
            anew_every=boot.checkpoint_every_updates,
            recycle_every=boot.recycle_every,
            patience=boot.patience,
            alike=getattr(learner_stage, "group", 1),
            whole_episodes=getattr(learner_stage, "whole_episodes", False),
        ),
    )
    stage = worker.stage(boot.stage)
    if boot.emulation is not None:
        body.before = stage.sweeping
    single_thread()
    told = time.monotonic()
    try:
        for _ in range(boot.last - boot.first):
            if worker.stopping():
                return
            body.add(stage.environment(), stage.environment)
            body.sweep()
            worker.beat()
        worker.tell(Ready())
        _settle()
        while not worker.stopping():
            if (news := worker.news()) is not None:
                body.tune(group=news.group, active=news.active)
            begin = time.perf_counter_ns()
            steps = body.sweep()
            if steps:
                worker.count(time.perf_counter_ns() - begin, steps)
            else:
                worker.bell.wait(IDLE_S)
            worker.beat()
            now = time.monotonic()
            if body.failures or (body.episodes and now - told > TELL_EVERY_S):
                told = now
                _tell(worker, body)
        _drain(worker, body)
    finally:
        _tell(worker, body)
        body.close()


def generate(worker: Worker) -> None:
    """Answer observations as they come."""
    from ebrl.runtime.generate import Generate

    boot = worker.boot
    worker.use_threads(boot.threads)
    environment = worker.program.environment
    assert environment is not None
    policy = worker.stage(boot.stage).build(environment, seed=boot.seed, device=boot.device)
    bells = list(zip(worker.bells_of("simulate"), boot.simulators, strict=False))
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
        if (news := worker.news()) is not None:
            body.tune(batch=news.batch)
            worker.use_threads(news.threads or boot.threads)
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
    from ebrl.runtime.learning import Learning

    worker.beat()
    if worker.boot.index > 0:
        _follow(worker)
        return
    learning = Learning(worker)
    simulators = worker.bells_of("simulate")
    retired = False
    try:
        for bell in (*worker.bells_of("generate"), *simulators):
            bell.ring()
        worker.tell(Ready())
        _settle()
        openings = -2
        while not worker.stopping():
            if (news := worker.news()) is not None:
                worker.use_threads(news.threads or worker.boot.threads)
            updated = learning.update()
            worker.beat()
            if worker.segments.openings != openings:
                openings = worker.segments.openings
                for bell in simulators:
                    bell.ring()
            if not updated:
                worker.bell.wait(IDLE_S)
            elif learning.done:
                worker.stop_all()
        retired = not worker.run_stopping()
    finally:
        if retired:
            learning.hand_on()
        else:
            learning.save()


def _follow(worker: Worker) -> None:
    """Take part in the updates of the first learner."""
    from ebrl.runtime.following import Following

    following = Following(worker)
    worker.tell(Ready())
    _settle()
    while not worker.stopping():
        begin = time.perf_counter_ns()
        if following.update():
            worker.count(time.perf_counter_ns() - begin, 1)
        else:
            worker.bell.wait(IDLE_S)
        worker.beat()


ROLES: dict[str, Callable[[Worker], None]] = {
    "simulate": simulate,
    "generate": generate,
    "train": train,
}


def _tell(worker: Worker, body: Simulate) -> None:
    """Episodes that have ended, and environments that have failed."""
    if body.episodes:
        rows = [
            (each.environment, each.reward, each.length, each.success) for each in body.episodes
        ]
        body.episodes.clear()
        worker.tell(Episodes(rows))
    for each in body.failures:
        worker.tell(
            EnvironmentFailed(
                environment=each.environment,
                message=each.message,
                where=each.where,
                steps=each.steps,
            )
        )
    body.failures.clear()


def _drain(worker: Worker, body: Simulate) -> None:
    """Retired while the run goes on: what is being filled is filled, within a time."""
    body.draining = True
    deadline = time.monotonic() + DRAIN_S
    while not worker.run_stopping() and not body.idle and time.monotonic() < deadline:
        if not body.sweep():
            worker.bell.wait(0.05)
        worker.beat()


def _settle() -> None:
    """What was built stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
