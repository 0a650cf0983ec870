"""Where the numbers come from: stage times, devices, interference, and the hashes of the inputs."""

from __future__ import annotations

import msgspec

from ebrl.planner.plan import Plan
from ebrl.planner.profile import CPU
from ebrl.planner.report.planned import Fact
from ebrl.planner.report.words import count, plural, size, time
from ebrl.planner.telling.table import device_of

MOST_POINTS = 400


class PointLine(msgspec.Struct, frozen=True, kw_only=True):
    """A measured, published or estimated stage time that the plan rests on."""

    stage: str
    place: str
    batch: str
    median: str
    p95: str
    memory: str
    source: str
    origin: str


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What one number rests on."""

    what: str
    value: str
    source: str
    origin: str


def point_lines(plan: Plan) -> tuple[tuple[PointLine, ...], int]:
    """The points, by stage and place, and how many more there are than can be shown."""
    points = sorted(plan.profile, key=lambda point: point.place)
    lines = tuple(
        PointLine(
            stage=point.stage,
            place=f"{plural(point.cores, 'core')}"
            if point.device == CPU
            else f"{point.device}, {point.sms} SMs",
            batch=count(point.batch),
            median=time(point.median_s),
            p95=time(point.p95_s),
            memory=size(point.bytes) if point.bytes else "–",
            source=point.source,
            origin="; ".join(filter(None, [point.origin, point.note, _samples(point.samples)])),
        )
        for point in points[:MOST_POINTS]
    )
    return lines, max(len(points) - MOST_POINTS, 0)


def _samples(number_of: int) -> str:
    return f"{number_of} timings" if number_of else ""


def bases(plan: Plan) -> tuple[Basis, ...]:
    """Stage times, then device figures, then interference."""
    found = []
    for stage in plan.stages:
        program = next((each for each in plan.program.stages if each.name == stage.name), None)
        keys = {stage.name, program.profile_key if program is not None else ""}
        origins = dict.fromkeys(
            point.origin for point in plan.profile if point.stage in keys and point.origin
        )
        work = program.work.note if program is not None and program.work is not None else ""
        estimated = [f"declared work: {work}"] if work and stage.source == "estimated" else []
        found.append(
            Basis(
                what=f"time of {stage.name} on {device_of(plan, stage)}",
                value=f"{time(stage.seconds)} a batch of {count(stage.batch)}",
                source=stage.source,
                origin="; ".join([*origins, *estimated]) or "declared work and device figures",
            )
        )
    kinds = {node.device.name: node.device for node in plan.cluster.nodes if node.device}
    for kind in kinds.values():
        found.append(
            Basis(
                what=f"figures of the {kind.name}",
                value=f"{kind.sms} SMs, {size(kind.memory_bytes)}, {kind.bf16_flops / 1e12:,.0f} "
                f"TFLOP/s {kind.half}, {size(kind.memory_bytes_per_s)}/s",
                source="published",
                origin=kind.source or "the device catalogue",
            )
        )
    for each in plan.interference:
        how = "taking turns" if each.turns else "side by side"
        found.append(
            Basis(
                what=f"interference of {' and '.join(each.stages)}",
                value=f"{each.factor:g} × the time, {how}",
                source=each.source,
                origin="assumed" if each.source == "estimated" else "",
            )
        )
    return tuple(found)


def hashes(plan: Plan) -> tuple[Fact, ...]:
    """Of everything that decides the plan."""
    program = Fact(name="Program", value=plan.program_sha256, note="the checked graph")
    return (
        Fact(name="Graph file", value=plan.program.sha256, note=plan.program.path),
        *([program] if plan.program_sha256 != plan.program.sha256 else []),
        Fact(name="Cluster", value=plan.cluster_sha256, note=plan.cluster.text),
        Fact(name="Profile", value=plan.profile_sha256, note=f"{len(plan.profile)} points"),
        Fact(name="Plan", value=plan.digest(), note="all of the above, and what was decided"),
    )


def pins(plan: Plan) -> tuple[str, ...]:
    return tuple(f"{pin.stage}.{pin.key}={pin.value:g}" for pin in plan.pins)
