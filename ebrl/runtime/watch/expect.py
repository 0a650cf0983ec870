"""What the plan expects an item to cost, at the batches that are really there.

A batch in a run is what is ready, often smaller than planned, so a stage is compared with its
profile at the batch it had, not at the planned one: a small batch is no drift. Replicas on devices
differ in their quotas and in who they share a device with, so each has its own expectation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from ebrl.errors import PlanError
from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.script import script
from ebrl.planner.plan import Plan
from ebrl.planner.profile import CPU, Point

Curve = tuple[tuple[float, ...], tuple[float, ...]]  # log batch, log seconds


def points_of(points: Sequence[Point], plan: Plan, stage: str) -> tuple[Point, ...]:
    """The points that the plan's replicas of a stage rest on: its device, and the nearest quota."""
    program = plan.program.stage(stage)
    keys = {program.profile_key or stage, stage}
    replica = plan.stage(stage).replicas[0]
    kinds = (
        {CPU} if replica.device is None else {n.device.name for n in plan.cluster.nodes if n.device}
    )
    mine = [p for p in points if p.stage in keys and p.device in kinds]
    if not mine:
        return ()
    quota = replica.sms if replica.device is not None else replica.rated_cores or 1.0

    def distance(point: Point) -> float:
        return abs(
            math.log(max(point.sms, 1) / max(quota, 1)) if point.sms else point.cores - quota
        )

    nearest = min(map(distance, mine))
    return tuple(p for p in mine if distance(p) == nearest)


class Expectation:
    """Log seconds of an item of a stage, over the batch.

    A stage without points where it runs was planned by an estimate; its items are taken to cost
    what they do in the planned batch.
    """

    def __init__(self, plan: Plan, points: Sequence[Point]) -> None:
        self._curves: dict[str, Curve] = {}
        self.measured: set[str] = set()  # stages that have points where they run
        for stage in plan.stages:
            mine = sorted(points_of(points, plan, stage.name), key=lambda point: point.batch)
            if mine:
                self.measured.add(stage.name)
                self._curves[stage.name] = (
                    tuple(math.log(p.batch) for p in mine),
                    tuple(math.log(p.median_s) for p in mine),
                )
            else:
                item_s = stage.seconds / (1 if stage.kind == "simulate" else stage.batch)
                self._curves[stage.name] = ((0.0,), (math.log(item_s),))
        self._own = _on_devices(plan, points)

    def log_item(self, stage: str, batch: float, replica: str | None = None) -> float:
        """Between points as the planner interpolates; beyond them in proportion to the batch."""
        own = self._own.get((stage, replica)) if replica is not None else None
        sizes, seconds = own or self._curves[stage]
        at = math.log(max(batch, 1e-9))
        beyond = max(0.0, at - sizes[-1])
        return float(np.interp(at, sizes, seconds)) + beyond - at


def _on_devices(plan: Plan, points: Sequence[Point]) -> dict[tuple[str, str | None], Curve]:
    """By replica on a device: at its own quota, slowed down by who shares the device with it."""
    placed = {
        (stage.name, replica.index): replica
        for stage in plan.stages
        for replica in stage.replicas
        if replica.device is not None
    }
    if not placed:
        return {}
    try:
        parts = script(msgspec.structs.replace(plan, profile=tuple(points)), Conditions()).parts
    except PlanError:  # the profile says nothing of it: an estimate was planned by
        return {}
    found: dict[tuple[str, str | None], Curve] = {}
    for part in parts:
        replica = placed.get((part.stage, part.index))
        if replica is None:
            continue
        if part.kind == "train" and replica.share:  # all its calls are of one size
            sizes: list[float] = [max(1.0, replica.share / part.calls)]
            times = [part.medians[-1]]
        else:
            sizes, times = [float(n) for n in range(1, len(part.medians))], [*part.medians[1:]]
        found[part.stage, str(part.index)] = (
            tuple(map(math.log, sizes)),
            tuple(math.log(seconds) for seconds in times),
        )
    return found
