"""Why there is no plan, in words: arithmetic first, then what would have to give."""

from __future__ import annotations

from collections.abc import Sequence

from ebrl.errors import InfeasibleError, PlanError
from ebrl.frontend.program import Program
from ebrl.planner.clock import Clock
from ebrl.planner.demand import Demand
from ebrl.planner.hardware import Cluster, DeviceKind
from ebrl.planner.profile import Point
from ebrl.planner.request import CompileOptions


def check_known(
    wanted: Sequence[Demand], cluster: Cluster, program: Program, points: tuple[Point, ...]
) -> None:
    """Every stage can run somewhere, and something is known about it there."""
    clock = Clock(program, points)
    kinds: list[DeviceKind | None] = [None]
    kinds += [node.device for node in cluster.nodes if node.device is not None]
    for demand in wanted:
        if all(clock.of(demand.stage, kind) is None for kind in kinds):
            raise _unknown(demand, kinds, cluster)


def _unknown(demand: Demand, kinds: Sequence[DeviceKind | None], cluster: Cluster) -> PlanError:
    stage = demand.stage
    if "cpu" not in stage.runs_on and len(kinds) == 1:
        return InfeasibleError(
            "no-device",
            f"stage {demand.name!r} runs on a GPU only, and {cluster.text} has none",
            where=stage.where,
            hint="plan for a cluster with GPUs, as in --cluster a100x8",
        )
    places = ", ".join("cores" if kind is None else kind.name for kind in kinds)
    return PlanError(
        "profile-missing",
        f"nothing is known about stage {demand.name!r} on {places}: it runs on "
        f"{' or '.join(stage.runs_on)}, the profile has no point of it there, and it declares no "
        "work to estimate by",
        where=stage.where,
        hint=f"measure it (ebrl profile), or give {stage.type} a work() to estimate by",
    )


def infeasible(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> InfeasibleError:
    return InfeasibleError(
        "infeasible",
        f"no plan of {program.name!r} fits {cluster.text}",
        where=program.path,
        hint="give more memory, cores or environments",
    )
