"""A binding becomes the plan: replicas with node, device, cores and environments; buffers; prediction.

Invariant: environments are numbered node by node, so a node's simulators and policies serve the same
contiguous range, each environment exactly once.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ebrl.frontend.program import Program
from ebrl.planner import layout, profile
from ebrl.planner.bind import Binding, Result
from ebrl.planner.clock import weakest
from ebrl.planner.cores import Wish, core_ids, place
from ebrl.planner.deal import parts
from ebrl.planner.demand import Demand
from ebrl.planner.hardware import Cluster, NodeClass
from ebrl.planner.learning import capacity_for, published_bytes
from ebrl.planner.node import NodeFill
from ebrl.planner.options import Option
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
from ebrl.planner.request import CompileOptions
from ebrl.planner.space import Space
from ebrl.planner.telling import bottleneck, notes

PROVEN = 1e-3
UNMADE = Made(version="", solver="", solve_s=0.0, total_s=0.0, created_at="")


@dataclass(slots=True)
class _Seat:
    """A replica while it is being made."""

    option: Option
    node: str
    device: int | None
    busy: float
    sm_start: int = 0
    turns: bool = False
    environments: tuple[int, int] | None = None
    core_set: tuple[int, ...] = ()
    share: int = 0


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
    count = _environment_count(space, binding)
    seats = _seats(space, cluster, binding, count)
    stages = tuple(_stage(space, demand, seats, binding.throughput) for demand in space.demands)
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
        notes=notes(space, stages),
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


def _environment_count(space: Space, binding: Binding) -> int:
    """What the nodes need, at least what the user asked for."""
    needed = sum(node.environments for node in binding.nodes)
    return min(max(needed, space.environments[0]), space.environments[1])


def _seats(space: Space, cluster: Cluster, binding: Binding, count: int) -> dict[str, list[_Seat]]:
    """Replicas of each stage, node by node."""
    seats: dict[str, list[_Seat]] = defaultdict(list)
    given = parts(
        count,
        [node.environments for node in binding.nodes],
        [_room(space, node, count) for node in binding.nodes],
    )
    pace = _pace(space, binding)
    first = 0
    for node, environments in zip(binding.nodes, given, strict=True):
        each = space.classes[node.k]
        name = "local" if cluster.local else f"{each.node.name}-{node.index}"
        here = _node_seats(space, node, name, pace)
        _give_cores(space, each.node, here)
        for demand in space.demands:
            mine = [seat for seat in here if seat.option.stage == demand.name]
            if demand.loop and environments:
                _give_environments(space, demand, mine, first, environments)
            seats[demand.name].extend(mine)
        first += environments
    _give_shares(space, seats)
    return seats


def _room(space: Space, node: NodeFill, count: int) -> int:
    """Environments that the node can hold: as many as its simulators on devices were given."""
    each = space.classes[node.k]
    if any(space.demand(each.on_cores[b.option].stage).holds for b in node.on_cores):
        return count
    return sum(each.on_device[b.option].resident for works in node.device_busy for b in works)


def _pace(space: Space, binding: Binding) -> dict[str, float]:
    """How much of what each stage could do the plan asks for: the rest of the time it waits."""
    supply: dict[str, float] = defaultdict(float)
    for node in binding.nodes:
        each = space.classes[node.k]
        for busy in node.on_cores:
            option = each.on_cores[busy.option]
            supply[option.stage] += option.rate * busy.busy
        for device in node.device_busy:
            for busy in device:
                option = each.on_device[busy.option]
                supply[option.stage] += option.rate * busy.busy
    if space.schedule == "synchronous":
        return {}
    wanted = {demand.name: demand.items * binding.throughput for demand in space.demands}
    for demand in space.demands:
        if demand.learns and space.mode is not None:
            wanted[demand.name] = demand.items * capacity_for(space.mode, binding.throughput)
    return {
        name: min(1.0, wanted[name] / each) for name, each in supply.items() if each > 0
    }


def _node_seats(space: Space, node: NodeFill, name: str, pace: dict[str, float]) -> list[_Seat]:
    each = space.classes[node.k]
    found = []
    for device, (pattern, works) in enumerate(zip(node.patterns, node.device_busy, strict=True)):
        start = 0
        for busy in works:
            option = each.on_device[busy.option]
            shared = pattern.turns or space.apart(option)
            found.append(
                _Seat(
                    option=option,
                    node=name,
                    device=device,
                    busy=busy.busy * pace.get(option.stage, 1.0),
                    sm_start=0 if shared else start,
                    turns=pattern.turns and not space.apart(option),
                )
            )
            start += 0 if shared else option.sms
    for busy in node.on_cores:
        option = each.on_cores[busy.option]
        found.append(
            _Seat(
                option=option, node=name, device=None, busy=busy.busy * pace.get(option.stage, 1.0)
            )
        )
    return found


def _give_cores(space: Space, node: NodeClass, seats: Sequence[_Seat]) -> None:
    ids = core_ids(node)
    for apart in (False, True):  # a synchronous learner has the cores to itself in its own phase
        mine = [seat for seat in seats if space.apart(seat.option) is apart]
        wishes = [Wish(share=_cores(seat), numa_hint=seat.device) for seat in mine]
        for seat, chosen in zip(mine, place(ids, node, wishes), strict=True):
            seat.core_set = chosen


def _cores(seat: _Seat) -> float:
    """Cores of a replica: those it is busy on, or those it keeps beside SMs of its own."""
    if seat.device is None or seat.turns:
        return seat.option.cores * seat.busy
    return seat.option.cores


def _give_environments(
    space: Space, demand: Demand, seats: list[_Seat], first: int, count: int
) -> None:
    """Contiguous ranges: what each seat was planned for, the rest in proportion to what it does."""
    weights = [max(1, round(1e6 * seat.option.rate * max(seat.busy, 1e-3))) for seat in seats]
    least = [
        1
        if demand.holds and seat.device is None
        else seat.option.resident or seat.option.batch * space.groups
        for seat in seats
    ]
    limits = [
        seat.option.resident - low if demand.holds and seat.option.resident else count
        for seat, low in zip(seats, least, strict=True)
    ]
    more = parts(max(0, count - sum(least)), weights, limits)
    begin = first
    for seat, low, extra in zip(seats, least, more, strict=True):
        seat.environments = (begin, begin + low + extra)
        begin += low + extra


def _give_shares(space: Space, seats: dict[str, list[_Seat]]) -> None:
    """Each rank takes of an update in proportion to its speed."""
    for demand in space.demands:
        if demand.learns and space.mode is not None:
            ranks = seats[demand.name]
            weights = [max(1, round(1e6 * seat.option.rate * seat.busy)) for seat in ranks]
            for seat, share in zip(ranks, parts(space.mode.batch, weights), strict=True):
                seat.share = share


def _stage(
    space: Space, demand: Demand, seats: dict[str, list[_Seat]], throughput: float
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
            cores=_cores(seat),
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
    """Sizes, to the byte, of what the data plane shares; a graph without environments shares nothing."""
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
