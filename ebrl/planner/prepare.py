"""From what the user names to a plan: the graph is loaded and checked, the hardware resolved, the
stage times gathered (profiles, else a calibration on this machine, else those shipped), compiled.

Invariant: a point keeps its provenance on the way; a calibration happens only for hardware
without devices (its cores are taken to be like this machine's, and the points say whose they
are), only where no profile was given, and says that it does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ebrl.frontend.program import Program
from ebrl.planner.hardware import Cluster
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.plan import Interference, Plan
from ebrl.planner.profile import Point

Calibrate = Callable[[Program, Path], tuple[tuple[Point, ...], int]]
"""Measures a program's stages on this machine: points, and the bytes of a policy's weights."""


Compiler = Callable[[Program, Cluster, tuple[Point, ...], CompileOptions], Plan]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, by name."""

    graph: Path
    cluster: str
    profiles: tuple[Path, ...] = ()
    options: CompileOptions = CompileOptions()


def prepare(request: Request, *, calibrate: Calibrate, by: Compiler | None = None) -> Plan:
    """Load, check, resolve, measure where that is needed, compile (`by`: in another way)."""
    from ebrl.frontend.check import check
    from ebrl.frontend.load import load_graph
    from ebrl.planner.cluster import parse
    from ebrl.planner.compile import compile

    cluster = parse(request.cluster)
    program = check(load_graph(request.graph))
    program, points = stage_times(program, cluster, request, calibrate)
    options = msgspec.structs.replace(
        request.options,
        interference=(*request.options.interference, *_interference(program, cluster, request)),
    )
    if by is not None:
        return by(program, cluster, points, options)
    return compile(program, cluster, points, options=options)


def stage_times(
    program: Program, cluster: Cluster, request: Request, calibrate: Calibrate
) -> tuple[Program, tuple[Point, ...]]:
    """The points to plan with, and the program with what only a measurement tells."""
    from ebrl.planner import profile
    from ebrl.planner.shipped import shipped

    if request.profiles:
        given = [profile.read(path) for path in request.profiles]
        return program, profile.merge(*given).points
    cores_alone = all(node.device is None for node in cluster.nodes)
    if not cores_alone or not _measurable(program):
        return program, shipped(program)
    points, weights_bytes = calibrate(program, request.graph)
    stages = tuple(
        msgspec.structs.replace(stage, weights_bytes=weights_bytes)
        if stage.kind == "generate"
        else stage
        for stage in program.stages
    )
    return msgspec.structs.replace(program, stages=stages), points


def _interference(program: Program, cluster: Cluster, request: Request) -> tuple[Interference, ...]:
    """Factors that the given profiles measured on the cluster's devices; of a set of stages the
    largest, since the model has one for all of them."""
    from ebrl.planner import profile

    devices = {node.device.name for node in cluster.nodes if node.device is not None}
    names = {key: s.name for s in program.stages for key in (s.name, s.profile_key) if key}
    return tuple(
        Interference(
            stages=tuple(sorted(names[stage] for stage in met.stages)),
            factor=max(1.0, *met.factors.values()),
            source=met.source,
        )
        for met in profile.merge(*map(profile.read, request.profiles)).together
        if met.device in devices and all(stage in names for stage in met.stages)
    )


def _measurable(program: Program) -> bool:
    """The runtime can measure one simulate, one generate and one train stage on cores."""
    kinds = sorted(stage.kind for stage in program.stages)
    return (
        kinds == ["generate", "simulate", "train"]
        and program.environment is not None
        and all("cpu" in stage.runs_on for stage in program.stages)
    )
