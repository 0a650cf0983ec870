"""Nodes become seats, a replica each: device, SMs, cores, environments, share of an update.

Invariant: environments are numbered node by node, so a node's simulators and policies serve the
same contiguous range, each environment exactly once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from ebrl.planner.binding.cores import Wish, core_ids, place
from ebrl.planner.binding.deal import parts
from ebrl.planner.binding.node import NodeFill
from ebrl.planner.binding.result import Binding
from ebrl.planner.hardware import Cluster, NodeClass
from ebrl.planner.model.demand import Demand
from ebrl.planner.model.learning import capacity_for
from ebrl.planner.model.options import Option
from ebrl.planner.model.space import Space


class Seat(msgspec.Struct):
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


def environment_count(space: Space, binding: Binding) -> int:
    """What the nodes need, at least what the user asked for."""
    needed = sum(node.environments for node in binding.nodes)
    return min(max(needed, space.environments[0]), space.environments[1])


def seats(space: Space, cluster: Cluster, binding: Binding, count: int) -> dict[str, list[Seat]]:
    """Replicas of each stage, node by node."""
    found: dict[str, list[Seat]] = defaultdict(list)
    given = parts(
        count,
        [node.environments for node in binding.nodes],
        [_room(space, node, count) for node in binding.nodes],
    )
    pace = _pace(space, binding)
    rollout = math.fsum(node.rollout for node in binding.nodes)
    asked = min(1.0, binding.throughput / rollout) if rollout > 0 else 1.0
    first = 0
    for node, environments in zip(binding.nodes, given, strict=True):
        each = space.classes[node.k]
        name = "local" if cluster.local else f"{each.node.name}-{node.index}"
        here = _node_seats(space, node, name, {**pace, **_loop_pace(space, node, asked)})
        _give_cores(space, each.node, here)
        for demand in space.demands:
            mine = [seat for seat in here if seat.option.stage == demand.name]
            if demand.loop and environments:
                _give_environments(space, demand, mine, first, environments)
            found[demand.name].extend(mine)
        first += environments
    _give_shares(space, found)
    return found


def _room(space: Space, node: NodeFill, count: int) -> int:
    """Environments that the node can hold: as many as its simulators on devices were given."""
    each = space.classes[node.k]
    if any(space.demand(each.on_cores[b.option].stage).holds for b in node.on_cores):
        return count
    return sum(each.on_device[b.option].resident for works in node.device_busy for b in works)


def _supply(space: Space, nodes: Sequence[NodeFill]) -> dict[str, float]:
    """Items a second of each stage, as busy as the nodes' own solutions have it."""
    supply: dict[str, float] = defaultdict(float)
    for node in nodes:
        each = space.classes[node.k]
        for busy in node.on_cores:
            option = each.on_cores[busy.option]
            supply[option.stage] += option.rate * busy.busy
        for device in node.device_busy:
            for busy in device:
                option = each.on_device[busy.option]
                supply[option.stage] += option.rate * busy.busy
    return supply


def _pace(space: Space, binding: Binding) -> dict[str, float]:
    """How much of what the learner and the stages outside the loop could do the plan asks for."""
    if space.schedule == "synchronous":
        return {}
    wanted = {demand.name: demand.items * binding.throughput for demand in space.demands}
    for demand in space.demands:
        if demand.learns and space.mode is not None:
            wanted[demand.name] = demand.items * capacity_for(space.mode, binding.throughput)
    supply = _supply(space, binding.nodes)
    return {
        demand.name: min(1.0, wanted[demand.name] / supply[demand.name])
        for demand in space.demands
        if not demand.loop and supply[demand.name] > 0
    }


def _loop_pace(space: Space, node: NodeFill, asked: float) -> dict[str, float]:
    """The same for the loop's stages on one node, whose rollout is the slowest of them; `asked` is
    the part of all rollout that the plan asks for."""
    if space.schedule == "synchronous":
        return {}
    supply = _supply(space, [node])
    return {
        demand.name: min(1.0, asked * demand.items * node.rollout / supply[demand.name])
        for demand in space.demands
        if demand.loop and supply[demand.name] > 0
    }


def _node_seats(space: Space, node: NodeFill, name: str, pace: dict[str, float]) -> list[Seat]:
    each = space.classes[node.k]
    found = []
    for device, (pattern, works) in enumerate(zip(node.patterns, node.device_busy, strict=True)):
        start = 0
        for busy in works:
            option = each.on_device[busy.option]
            shared = pattern.turns or space.apart(option)
            found.append(
                Seat(
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
            Seat(
                option=option, node=name, device=None, busy=busy.busy * pace.get(option.stage, 1.0)
            )
        )
    return found


def _give_cores(space: Space, node: NodeClass, seats: Sequence[Seat]) -> None:
    ids = core_ids(node)
    for apart in (False, True):  # a synchronous learner has the cores to itself in its own phase
        mine = [seat for seat in seats if space.apart(seat.option) is apart]
        wishes = [Wish(share=cores(seat), numa_hint=seat.device) for seat in mine]
        for seat, chosen in zip(mine, place(ids, node, wishes), strict=True):
            seat.core_set = chosen


def cores(seat: Seat) -> float:
    """Cores of a replica: those it is busy on, or those it keeps beside SMs of its own."""
    if seat.device is None or seat.turns:
        return seat.option.cores * seat.busy
    return seat.option.cores


def _give_environments(
    space: Space, demand: Demand, seats: list[Seat], first: int, count: int
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


def _give_shares(space: Space, seats: dict[str, list[Seat]]) -> None:
    """Each rank takes of an update in proportion to its speed."""
    for demand in space.demands:
        if demand.learns and space.mode is not None:
            ranks = seats[demand.name]
            weights = [max(1, round(1e6 * seat.option.rate * seat.busy)) for seat in ranks]
            for seat, share in zip(ranks, parts(space.mode.batch, weights), strict=True):
                seat.share = share
