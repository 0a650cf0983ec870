"""Measuring one stage in a process of its own: the real worker loops over a private slab.

Invariant: what is timed is what a run executes (the same `Simulate`, `Generate`, `Train`), in CPU
seconds of the process, so that a measurement means the same when other processes share the cores,
and is best made while they do: then it includes what sharing caches and cores costs.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ebrl.errors import Diagnostic, EbrlError, RunError
from ebrl.planner.plan import Program
from ebrl.runtime.boot import Role, load_stage
from ebrl.runtime.generate import Generate
from ebrl.runtime.profiling.rig import RandomActions, fill_actions, fill_observations, private
from ebrl.runtime.segments import NEEDS_ACTION, READY
from ebrl.runtime.simulate import Simulate
from ebrl.runtime.threads import set_threads, single_thread
from ebrl.runtime.train import Train

UNLIMITED = 1 << 40
SAMPLES = 12
WARM_S = 0.3
FEWEST = 2  # environments to build, however long that takes
PATIENCE = 4.0  # times the budget that one update may take before it is cut short
CUT_AFTER = 4  # minibatches at least


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure, on standard input."""

    role: Role
    stage: str
    policy_stage: str
    program: Program
    graph: str
    graph_sha256: str | None
    budget_s: float
    environments: int  # to build at most (simulate), or the largest batch (generate)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds of one batch: median and 95th percentile, and the process's memory then."""

    batch: int
    median_s: float
    p95_s: float
    bytes: int


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, on standard output; `failed` where it could not be."""

    samples: tuple[Sample, ...] = ()
    weights_bytes: int = 0
    failed: tuple[Diagnostic, ...] = ()


def measure(request: Request) -> Reply:
    """Measure as asked."""
    roles = {"simulate": _simulate, "generate": _generate, "train": _train}
    return roles[request.role](request)


def weights_bytes(program: Program, graph: Path, graph_sha256: str | None) -> int:
    """Bytes of the published weights, asked in a process of its own (this one imports no torch)."""
    request = Request(
        role="generate",
        stage=program.of_kind("generate")[0].name,
        policy_stage=program.of_kind("generate")[0].name,
        program=program,
        graph=str(graph),
        graph_sha256=graph_sha256,
        budget_s=0.0,
        environments=0,
    )
    done = subprocess.run(
        [sys.executable, "-m", "ebrl.runtime.profiling.measure"],
        input=msgspec.json.encode(request),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise RunError(
            "policy-unbuildable",
            "the policy cannot be built; it ended with:\n"
            + "\n".join(done.stderr.decode(errors="replace").splitlines()[-12:]),
            where=str(graph),
        )
    reply = msgspec.json.decode(done.stdout, type=Reply)
    if reply.failed:
        raise RunError.of(reply.failed)
    return reply.weights_bytes


def _simulate(request: Request) -> Reply:
    environments = request.environments
    segments = 2 * environments + 1
    slab, pool = private(request.program, environments, segments, weights_bytes=0)
    slab["weights/version"][0] = 0
    body = Simulate(
        slab,
        pool,
        worker=0,
        first=0,
        count=environments,
        group=environments,
        seed=0,
        ring_generate=_nothing,
        ring_learner=_nothing,
    )
    stage = _stage(request, request.stage)
    single_thread()
    memory: list[int] = []
    give_up = time.monotonic() + request.budget_s
    while len(memory) < environments and (len(memory) < FEWEST or time.monotonic() < give_up):
        body.add(stage.environment())
        body.sweep()
        memory.append(_memory())
    built = len(memory)
    answer = RandomActions(request.program, slab)

    def fire() -> int:
        answer()
        begin = time.process_time()
        steps = body.sweep()
        spent[0] += time.process_time() - begin
        done = np.flatnonzero(slab["segment/state"] == READY)
        if done.size:
            pool.release(done)
        body.episodes.clear()
        return steps

    spent = [0.0]
    per_step: list[float] = []
    end = time.monotonic() + WARM_S
    while time.monotonic() < end:
        fire()
    end = time.monotonic() + request.budget_s
    while time.monotonic() < end or len(per_step) < 3:
        spent[0], steps = 0.0, 0
        begin = time.monotonic()
        while time.monotonic() - begin < request.budget_s / SAMPLES or steps == 0:
            steps += fire()
        per_step.append(spent[0] / steps)
    body.close()
    step = _sample(1, per_step, memory[0])
    many = Sample(
        batch=built,
        median_s=step.median_s * built,
        p95_s=step.p95_s * built,
        bytes=memory[-1],
    )
    return Reply(samples=(step, many) if built > 1 else (step,))


def _generate(request: Request) -> Reply:
    program = request.program
    assert program.environment is not None
    policy = _stage(request, request.stage).build(program.environment, seed=0, device="cpu")
    size = 4 * sum(math.prod(shape) for shape in policy.weights().values())
    most = request.environments
    if most == 0:
        return Reply(weights_bytes=size)
    slab, pool = private(program, most, most, size)
    learner = _learner(request)
    learner.write_weights(slab["weights"][0])
    slab["weights/version"][0] = 0
    fill_observations(slab)
    slab["env/segment"][:] = np.arange(most)
    set_threads(1)
    sizes = sorted({min(most, each) for each in (1, 2, 4, 8, 16, 32, 64, 128, 256, most)})
    samples: list[Sample] = []
    for batch in sizes:
        body = Generate(
            slab, pool, policy, first=0, last=batch, batch=batch, groups=((0, batch),), seed=0
        )

        def fire(body: Generate = body, batch: int = batch) -> None:
            slab["env/state"][:batch] = NEEDS_ACTION
            body.serve()

        samples.append(_sample(batch, _time(fire, request.budget_s / len(sizes)), _memory()))
    return Reply(samples=tuple(samples), weights_bytes=size)


def _train(request: Request) -> Reply:
    program = request.program
    assert program.environment is not None
    assert program.training is not None
    body = _learner(request)
    set_threads(1)
    training = program.training
    chunk = program.environment.action.chunk
    per_batch = math.ceil(training.batch / (training.horizon * chunk))
    size = 4 * sum(math.prod(shape) for shape in body.weights().values())
    slab, pool = private(program, 1, per_batch, size, per_batch=per_batch)
    fill_observations(slab)
    slab["steps"][:] = chunk
    slab["log_prob"][:] = -1.0
    slab["reward"][:] = np.random.default_rng(0).standard_normal(slab["reward"].shape)
    fill_actions(program, slab["action"], np.random.default_rng(0))
    learner = Train(slab, pool, body, version=0)
    learner.publish()
    minibatches = training.epochs * math.ceil(
        training.batch / (training.minibatch or training.batch)
    )

    def fire(patience_s: float) -> float:
        slab["segment/state"][:] = READY
        slab["version"][:] = learner.version
        slab["started"][0] = per_batch
        return _timed_update(learner, patience_s, minibatches)

    fire(request.budget_s)  # warms up: buffers, optimizer state, the allocator
    seconds: list[float] = []
    end = time.monotonic() + request.budget_s
    while len(seconds) < 2 or (time.monotonic() < end and len(seconds) < SAMPLES):
        seconds.append(fire(PATIENCE * request.budget_s))
    return Reply(samples=(_sample(training.batch, seconds, _memory()),), weights_bytes=size)


def _timed_update(learner: Train, patience_s: float, minibatches: int) -> float:
    """CPU seconds of one whole update.

    One that takes longer than `patience_s` is cut short, and what its minibatches took is scaled to
    all of them; what came before the first of them is not.
    """
    asked: list[float] = []
    begin = time.process_time()
    give_up = time.monotonic() + patience_s

    def should_stop() -> bool:
        asked.append(time.process_time() - begin)
        return len(asked) > CUT_AFTER and time.monotonic() > give_up

    update = learner.update(should_stop)
    spent = time.process_time() - begin
    if update is not None:
        return spent
    done = len(asked) - 2  # the last asking is ours, after the update gave up
    return asked[0] + (asked[-1] - asked[0]) / done * minibatches


def _learner(request: Request) -> Any:
    program = request.program
    name = next(stage.name for stage in program.stages if stage.kind == "train")
    return _stage(request, name).build(
        _stage(request, request.policy_stage),
        program.environment,
        program.training,
        seed=0,
        device="cpu",
        total_updates=None,
    )


def _stage(request: Request, name: str) -> Any:
    return load_stage(request.graph, request.graph_sha256, name)


def _time(fire: Callable[[], None], budget_s: float) -> list[float]:
    """CPU seconds of one call, in several samples of many calls each."""
    calls = 0
    end = time.monotonic() + budget_s / 4
    while time.monotonic() < end or calls < 2:
        fire()
        calls += 1
    repeat = max(1, calls // 4)
    samples: list[float] = []
    end = time.monotonic() + budget_s
    while time.monotonic() < end or len(samples) < 3:
        begin = time.process_time()
        for _ in range(repeat):
            fire()
        samples.append((time.process_time() - begin) / repeat)
    return samples


def _sample(batch: int, seconds: list[float], memory: int) -> Sample:
    return Sample(
        batch=batch,
        median_s=float(np.median(seconds)),
        p95_s=float(np.quantile(seconds, 0.95)),
        bytes=memory,
    )


def _memory() -> int:
    """Resident bytes of this process that are its own, or shared files it has touched."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _nothing() -> None:
    """No bell to ring here."""


def main() -> None:
    """Read a request, measure, print the reply; what the stage itself prints goes to stderr."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    answer = os.dup(1)
    os.dup2(2, 1)
    try:
        reply = measure(request)
    except EbrlError as error:
        reply = Reply(failed=error.diagnostics)
    os.write(answer, msgspec.json.encode(reply))


if __name__ == "__main__":
    main()
