"""Quick calibration: measure the stages of a graph on this machine, all at once, in seconds.

Invariant: all stages are measured together, one process each and one simulator a core (at most
`SIMULATORS`), so every core is as busy as it will be in the run, and the CPU seconds that come out
are those that the plan can count on. Results are cached under what they depend on: the stages, the
program's shapes, the machine, the versions of what does the work.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from ebrl.errors import PlanError
from ebrl.planner.plan import Program
from ebrl.planner.profile import Point
from ebrl.runtime.boot import Role
from ebrl.runtime.profiling.measure import Reply, Request

SIMULATORS = 4  # simulators measured at the same time, at most
BUDGET_S = 3.0
TIMEOUT_S = 300.0
MOST_SIMULATED = 32  # environments in one process
MOST_ANSWERED = 256  # environments answered at once
PACKAGES = ("ebrl", "torch", "numpy", "gymnasium", "mani-skill", "sapien")


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Measured points, and what only a built policy tells."""

    points: tuple[Point, ...]
    weights_bytes: int
    cached: bool = False


def calibrate(
    program: Program,
    graph: Path,
    *,
    cache: Path | None,
    say: Callable[[str], None],
    budget_s: float = BUDGET_S,
) -> Calibration:
    """Points of the simulate, generate and train stage on one core of this machine.

    `batch` is in environment steps for simulate and train and in environments answered at once for
    generate; `median_s` is CPU seconds of one batch. `cache`: a folder, or None. PlanError where a
    stage cannot be measured, with the end of what it printed.
    """
    path = None if cache is None else cache / f"calibration-{_key(program, budget_s)}.json"
    if path is not None and path.is_file():
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Calibration)
        except msgspec.DecodeError:
            path.unlink()
        else:
            return msgspec.structs.replace(found, cached=True)
    requests = _requests(program, graph, budget_s)
    cores = len(os.sched_getaffinity(0))
    copies = [
        request
        for request in requests
        for _ in range(min(cores, SIMULATORS) if request.role == "simulate" else 1)
    ]
    say(
        f"measuring {', '.join(request.stage for request in requests)} on this machine "
        f"({budget_s:.0f} s and their start-up)"
    )
    replies = _run(copies)
    points: list[Point] = []
    weights_bytes = 0
    origin = f"calibration on {_processor()}, {cores} cores busy"
    for request in requests:
        mine = [reply for each, reply in zip(copies, replies, strict=True) if each is request]
        weights_bytes = max(weights_bytes, *(reply.weights_bytes for reply in mine))
        for samples in zip(*(reply.samples for reply in mine), strict=True):
            points.append(
                Point(
                    stage=request.stage,
                    device="cpu",
                    cores=1.0,
                    batch=samples[0].batch,
                    median_s=samples[0].batch * _mean(s.median_s / s.batch for s in samples),
                    p95_s=samples[0].batch * max(s.p95_s / s.batch for s in samples),
                    bytes=max(each.bytes for each in samples),
                    source="measured",
                    origin=origin,
                )
            )
    result = Calibration(points=tuple(points), weights_bytes=weights_bytes)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(msgspec.json.encode(result))
        os.replace(draft, path)
    return result


def _requests(program: Program, graph: Path, budget_s: float) -> list[Request]:
    assert program.environment is not None
    policy = program.of_kind("generate")[0].name
    simulators = min(len(os.sched_getaffinity(0)), SIMULATORS)
    roles: tuple[tuple[Role, int], ...] = (
        ("simulate", min(MOST_SIMULATED, max(1, program.environment.max_count // simulators))),
        ("generate", min(MOST_ANSWERED, program.environment.max_count)),
        ("train", 1),
    )
    return [
        Request(
            role=role,
            stage=program.of_kind(role)[0].name,
            policy_stage=policy,
            program=program,
            graph=str(graph),
            graph_sha256=program.sha256,
            budget_s=budget_s,
            environments=environments,
        )
        for role, environments in roles
    ]


def _run(requests: Sequence[Request]) -> list[Reply]:
    """Measure them all at the same time."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "ebrl.runtime.profiling.measure"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        for _ in requests
    ]
    try:
        for request, process in zip(requests, running, strict=True):
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(request))
            process.stdin.close()
            process.stdin = None
        return [
            _reply(request, process) for request, process in zip(requests, running, strict=True)
        ]
    finally:
        for process in running:
            process.kill()
            process.wait()


def _reply(request: Request, process: subprocess.Popen[bytes]) -> Reply:
    try:
        output, errors = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise PlanError(
            "calibration-timeout",
            f"`{request.stage}` was not measured within {TIMEOUT_S:.0f} s",
            where=request.graph,
            hint="give a profile with --profile FILE instead",
        ) from error
    if process.returncode != 0:
        tail = "\n".join(errors.decode(errors="replace").splitlines()[-12:])
        raise PlanError(
            "calibration-failed",
            f"`{request.stage}` cannot be measured; it ended with:\n{tail}",
            where=request.graph,
            hint="`ebrl doctor` says what this machine lacks",
        )
    reply = msgspec.json.decode(output, type=Reply)
    if reply.failed:
        raise PlanError.of(reply.failed)
    return reply


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _key(program: Program, budget_s: float) -> str:
    versions = []
    for package in PACKAGES:
        try:
            versions.append(importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            versions.append("")
    body = [
        [stage.fingerprint for stage in program.stages],
        msgspec.to_builtins(program.environment),
        msgspec.to_builtins(program.training),
        len(os.sched_getaffinity(0)),
        _processor(),
        budget_s,
        versions,
    ]
    return hashlib.sha256(msgspec.json.encode(body)).hexdigest()[:20]


def _processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
