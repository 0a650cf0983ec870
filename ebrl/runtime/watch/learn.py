"""A profile brought up to date by what a run measured.

Where the run was, there is a measurement: the stage at its quota and the batch it really had, with
median and 95th percentile. Everywhere else the stage is taken to have changed by the same ratio,
which is a guess, so those points are called estimated. Invariant: no point's standing is raised but
by a measurement of that very place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ebrl.planner.plan import Plan
from ebrl.planner.profile import CPU, Point, of
from ebrl.runtime.watch.expect import points_of
from ebrl.runtime.watch.window import StageWindow

NEAR = 1.5  # times: a measured batch speaks for points so near to it
HOLDS = "simulate"  # its points are for environments held, not answered at once


def updated(
    plan: Plan,
    points: Sequence[Point],
    factors: Mapping[str, float],
    seen: Mapping[str, StageWindow],
    *,
    slowdown: float = 1.0,
    on_cores: float = 1.0,
) -> tuple[Point, ...]:
    """`factors` of stages over these points, times `slowdown` for all, times `on_cores` for what
    runs on cores alone; `seen`: of the same time."""
    found = []
    for point in points:
        stage = _stage_of(plan, point)
        factor = slowdown * (factors.get(stage, 1.0) if stage else 1.0)
        factor *= on_cores if point.device == CPU else 1.0
        if stage is None or abs(factor - 1.0) < 1e-9:
            found.append(point)
            continue
        window = seen.get(stage)
        mine = points_of(points, plan, stage)
        near = (
            window is not None
            and point in mine
            and (
                plan.stage(stage).kind == HOLDS
                or max(point.batch / window.batch, window.batch / point.batch) <= NEAR
            )
        )
        spread = point.p95_s / point.median_s
        if near and window is not None and window.p50_s > 0:
            spread = max(1.0, window.p95_s / window.p50_s)
        found.append(
            msgspec.structs.replace(
                point,
                median_s=point.median_s * factor,
                p95_s=point.median_s * factor * spread,
                source="measured" if near else "estimated",
                origin="this run",
                note=f"{factor:.2f} times: {point.origin}"[:200],
            )
        )
    return of(found).points


def _stage_of(plan: Plan, point: Point) -> str | None:
    for stage in plan.program.stages:
        if point.stage in (stage.profile_key, stage.name):
            return stage.name
    return None
