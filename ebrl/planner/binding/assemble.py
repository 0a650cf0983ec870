"""A binding becomes the plan: replicas with node, device, cores and environments; buffers;
prediction.

Invariant: environments are numbered node by node, so a node's simulators and policies serve the
same contiguous range, each environment exactly once.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

from ebrl.frontend.program import Program
from ebrl.planner import layout, profile
from ebrl.planner.binding.bind import PROVEN
from ebrl.planner.binding.result import Binding, Result
from ebrl.planner.binding.seats import Seat, cores, environment_count, seats
from ebrl.planner.hardware import Cluster
from ebrl.planner.model.clock import weakest
from ebrl.planner.model.demand import Demand
from ebrl.planner.model.learning import published_bytes
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.model.space import Space
from ebrl.planner.plan import (
    Alternative,
    Buffers,
    Environments,
    Interference,
    Made,
    Plan,
    Prediction,
    Replica,
    StagePlan,
)
from ebrl.planner.portfolio import throughput_bound
from ebrl.planner.profile import Point
from ebrl.planner.telling.bottleneck import bottleneck, notes

UNMADE = Made(version="", solver="", solve_s=0.0, total_s=0.0, created_at="")


def plan(
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
    best: Result,
    others: tuple[Alternative, ...] = (),
) -> Plan:
    """Everything but `made`."""
    binding = best.binding
    assert best.found.allocation is not None
    space = best.found.allocation.space
    count = environment_count(space, binding)
    places = seats(space, cluster, binding, count)
    stages = tuple(_stage(space, demand, places, binding.throughput) for demand in space.demands)
    used = _used(program, points)
    bound = best.bound
    if options.objective != "throughput":
        bound = throughput_bound(program, cluster, points, options)
    bound = max(bound, binding.throughput)
    name, why = bottleneck(space, binding, stages)
    eta = 0 if space.schedule == "synchronous" else (
        options.max_staleness
        if options.max_staleness is not None
        else (program.training.max_staleness if program.training else 0)
    )  # fmt: skip
    return Plan(
        program=program,
        program_sha256=program.sha256,
        cluster=cluster,
        cluster_sha256=cluster.digest(),
        profile=used,
        profile_sha256=profile.digest(used),
        objective=options.objective,
        at_least=options.at_least,
        schedule=space.schedule,
        max_staleness=eta,
        asked_staleness=options.max_staleness,
        stages=stages,
        environments=Environments(count=count, groups=space.groups),
        buffers=_buffers(program, count, eta, sum(len(s.replicas) for s in stages)),
        prediction=Prediction(
            throughput_env_steps_per_s=binding.throughput,
            bound_env_steps_per_s=bound,
            gap=max(0.0, best.bound - best.value) / max(abs(best.bound), 1e-12),
            objective_value=abs(best.value),
            objective_bound=abs(best.bound),
            bottleneck=name,
            why=why,
            status=_status(best),
        ),
        alternatives=others,
        pins=options.pins,
        interference=_met(space, binding),
        notes=notes(stages),
        made=UNMADE,
    )


def _status(best: Result) -> Literal["optimal", "time limit", "effort limit"]:
    """Optimal is what is proven to a tenth of a percent; else what stopped the search."""
    if best.bound - best.value <= PROVEN * abs(best.bound):
        return "optimal"
    return "time limit" if best.found.status == "time limit" else "effort limit"


def _met(space: Space, binding: Binding) -> tuple[Interference, ...]:
    """Every set of stages that meets on a device, with its factor."""
    found: dict[tuple[tuple[str, ...], bool], Interference] = {}
    for node in binding.nodes:
        each = space.classes[node.k]
        for pattern in set(node.patterns):
            options = [each.on_device[o] for o in pattern.members]
            stages = frozenset(o.stage for o in options if not space.apart(o))
            if len(stages) > 1:
                entry = space.slowdowns.entry(stages, turns=pattern.turns)
                found[entry.stages, entry.turns] = entry
    return tuple(found[key] for key in sorted(found))


def _used(program: Program, points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Points of the program's stages, in the order of their places."""
    keys = {key for stage in program.stages for key in (stage.profile_key, stage.name) if key}
    return tuple(sorted((p for p in points if p.stage in keys), key=lambda p: p.place))


def _stage(
    space: Space, demand: Demand, seats: dict[str, list[Seat]], throughput: float
) -> StagePlan:
    mine = seats[demand.name]
    capacity = math.fsum(seat.option.rate for seat in mine)
    common, _ = Counter(seat.option for seat in mine).most_common(1)[0]
    replicas = tuple(
        Replica(
            index=index,
            node=seat.node,
            device=seat.device,
            sms=seat.option.sms,
            sm_start=seat.sm_start,
            cores=cores(seat),
            core_set=seat.core_set,
            threads=max(1, math.floor(seat.option.cores)),
            batch=seat.option.batch,
            environments=seat.environments,
            share=seat.share,
            rated_cores=seat.option.cores,
            busy=seat.busy,
        )
        for index, seat in enumerate(mine)
    )
    return StagePlan(
        name=demand.name,
        kind=demand.stage.kind,
        batch=space.mode.batch if demand.learns and space.mode else common.batch,
        seconds=common.seconds,
        items_per_s=capacity,
        utilisation=min(1.0, demand.items * throughput / capacity) if capacity else 0.0,
        source=weakest([seat.option.source for seat in mine]),  # type: ignore[arg-type]
        memory_bytes=common.memory_bytes or common.ram_bytes,
        shards=space.mode.shards if demand.learns and space.mode else 1,
        replicas=replicas,
    )


def _buffers(program: Program, environments: int, eta: int, workers: int) -> Buffers:
    """Sizes, to the byte, of what the data plane shares; without environments, nothing."""
    if program.environment is None or program.training is None:
        return Buffers(segments=0, horizon=0, segment_bytes=0, weights_bytes=0, slab_bytes=0)
    segments = layout.segment_count(program, environments, eta)
    weights = int(published_bytes(program))
    return Buffers(
        segments=segments,
        horizon=program.training.horizon,
        segment_bytes=layout.segment_bytes(program),
        weights_bytes=weights,
        slab_bytes=layout.slab_layout(
            program,
            environments=environments,
            segments=segments,
            workers=workers,
            weights_bytes=weights,
        ).total_bytes,
    )
