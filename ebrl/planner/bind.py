"""Counts become nodes: which pattern each device follows, which replicas each node's cores carry.

Devices are dealt so that nodes of a class differ by at most one of each pattern; then each kind of node
that results is solved alone, exactly, for the rollout rate that its own devices, cores and memory can
keep up (the loop never leaves a node). Invariant: the throughput of a binding is recomputed from its
nodes; if dealing loses something against the counts, it shows.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import msgspec

from ebrl.planner import milp
from ebrl.planner.learning import Cut, throughput
from ebrl.planner.search import Allocation
from ebrl.planner.solver import solve
from ebrl.planner.space import SHARED_CORES, ClassSpace, Space

SLACK = 1e-9
HEADROOM = 0.9  # how busy one simulating process on pooled cores should be planned


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """One replica-to-be: an option and the part of the time it works."""

    option: int
    busy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFill:
    """One node: a pattern for each device in use, replicas on cores, and what they keep up."""

    k: int
    index: int  # within its class
    patterns: tuple[int, ...]
    device_busy: tuple[tuple[Busy, ...], ...]  # by device, in the order of `patterns`
    on_cores: tuple[Busy, ...]
    rollout: float
    learner: float
    environments: int  # needed; may be given more


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    nodes: tuple[NodeFill, ...]
    throughput: float


def bind(found: Allocation) -> Binding:
    """Deal, then solve each kind of node."""
    space = found.space
    nodes: list[NodeFill] = []
    for k, each in enumerate(space.classes):
        hands = _deal(found.devices[k], each.node.count)
        ranks = _deal_ranks(found, k)
        solved: dict[object, NodeFill | None] = {}
        most = _share(found.environments[k], each.node.count)
        for index in range(each.node.count):
            hand = tuple(sorted(hands[index].elements()))
            rank = tuple(sorted(ranks[index].items()))
            if not hand and not rank and found.rollout[k] <= SLACK and not found.replicas[k]:
                continue
            key = (hand, rank, most[index])
            if key not in solved:
                solved[key] = _fill(found, k, hand, dict(rank), most[index])
            fill = solved[key]
            if fill is not None:
                nodes.append(replace(fill, index=index))
    rollout = math.fsum(node.rollout for node in nodes)
    learner = math.fsum(node.learner for node in nodes)
    return Binding(
        nodes=tuple(nodes),
        throughput=throughput(space.schedule, space.mode, rollout, learner),
    )


def _deal(counts: dict[int, int], nodes: int) -> list[Counter[int]]:
    """Each node the same, then what is left one by one: no two nodes differ by more than one."""
    hands: list[Counter[int]] = [Counter() for _ in range(nodes)]
    turn = 0
    for pattern in sorted(counts):
        each, left = divmod(counts[pattern], nodes)
        for hand in hands:
            hand[pattern] += each
        for _ in range(left):
            hands[turn % nodes][pattern] += 1
            turn += 1
    return hands


def _deal_ranks(found: Allocation, k: int) -> list[Counter[int]]:
    """Learner ranks on cores, by node: spread out, or all together where the mode says so."""
    space = found.space
    each = space.classes[k]
    ranks = {
        j: count
        for j, count in found.replicas[k].items()
        if space.demand(each.on_cores[j].stage).learns
    }
    if space.mode is not None and space.mode.span != "cluster":
        hands: list[Counter[int]] = [Counter() for _ in range(each.node.count)]
        hands[0].update(ranks)
        return hands
    return _deal(ranks, each.node.count)


def _share(count: int, nodes: int) -> tuple[int, ...]:
    """`count` in `nodes` nearly equal parts."""
    return tuple((count * (i + 1)) // nodes - (count * i) // nodes for i in range(nodes))


def _fill(
    found: Allocation, k: int, hand: tuple[int, ...], ranks: dict[int, int], environments: int
) -> NodeFill | None:
    """The most that one node can keep up with these devices and ranks."""
    space = found.space
    each = space.classes[k]
    everywhere = max(1, sum(found.environments))
    alone = _alone(space, each, environments, space.in_flight * environments / everywhere)
    counts = Counter(hand)
    chosen = (tuple(sorted(counts)),)
    scale = max(found.throughput / max(1, sum(c.node.count for c in space.classes)), 1e-9)
    made = milp.build(alone, chosen, [Cut(rollout=1.0, learner=0.0, constant=0.0)], scale)
    model = made.model
    for i, count in counts.items():
        model.low[made.devices[0, i]] = model.high[made.devices[0, i]] = count
    for j, option in enumerate(each.on_cores):
        if space.demand(option.stage).learns:
            count = ranks.get(j, 0)
            model.low[made.replicas[0, j]] = model.high[made.replicas[0, j]] = count
            whole = found.replicas[k].get(j, 0)
            busy = found.busy[k].get(j, 0.0) * count / whole if whole else 0.0
            model.low[made.busy_cores[0, j]] = max(0.0, busy - SLACK)
            model.high[made.busy_cores[0, j]] = busy
    for s, demand in enumerate(space.demands):
        if not demand.loop and not demand.learns:  # its pace is kept by all nodes together
            row = made.rows["pace", 0, s]
            share = len(hand) / max(1, sum(found.devices[k].values())) if hand else None
            part = share if share is not None else 1 / each.node.count
            model.rows[row][made.rollout[0]] = 0.0
            model.row_low[row] = demand.items * found.throughput * part * (1 - SLACK)
    for j in range(len(each.on_cores)):
        model.objective[made.replicas[0, j]] = -1e-7
    for column in (
        *made.busy_cores.values(),
        *made.busy_device.values(),
        *made.busy_shared.values(),
    ):
        model.objective[column] = -1e-8
    model.objective[made.environments[0]] = -1e-9
    if made.learner >= 0:
        model.objective[made.learner] = 1e-6
    outcome = solve(model, relative_gap=1e-7)
    if not outcome.values:
        return None
    values = outcome.values
    on_cores: list[Busy] = []
    for (_, j), column in sorted(made.replicas.items()):
        busy, count = values[made.busy_cores[0, j]], round(values[column])
        option = each.on_cores[j]
        if space.demand(option.stage).holds and count and _crowded(each, busy, count):
            count = min(count + 1, max(1, environments))
        if count:
            on_cores += [Busy(option=j, busy=busy / count)] * count
    return NodeFill(
        k=k,
        index=0,
        patterns=hand,
        device_busy=tuple(_device_busy(made, each, values, counts, i) for i in hand),
        on_cores=tuple(on_cores),
        rollout=values[made.rollout[0]] * scale,
        learner=values[made.learner] * scale if made.learner >= 0 else 0.0,
        environments=round(values[made.environments[0]]),
    )


def _crowded(each: ClassSpace, busy: float, count: int) -> bool:
    """Would these processes, on pooled cores, hardly ever wait for anything? Then one more is better."""
    return count < each.node.cores <= SHARED_CORES and busy > HEADROOM * count


def _device_busy(
    made: milp.Program,
    each: ClassSpace,
    values: tuple[float, ...],
    counts: Counter[int],
    i: int,
) -> tuple[Busy, ...]:
    """How busy each option is on one device of this pattern: equal on equal devices."""
    found = []
    for o in (int(o) for o in each.patterns.members[i] if o >= 0):
        if (0, i, o) in made.busy_shared:
            busy = values[made.busy_shared[0, i, o]] / counts[i]
        else:
            row = made.model.rows[made.rows["busy", 0, o]]
            supply = {c: -t for c, t in row.items() if c != made.busy_device[0, o]}
            everything = math.fsum(t * values[c] for c, t in supply.items())
            busy = values[made.busy_device[0, o]] * supply[made.devices[0, i]] / everything
        found.append(Busy(option=o, busy=busy))
    return tuple(found)


def _alone(space: Space, each: ClassSpace, environments: int, in_flight: float) -> Space:
    """The same choice for one node of the class, maximising its rollout."""
    node = msgspec.structs.replace(each.node, count=1)
    mode = space.mode
    return Space(
        demands=space.demands,
        classes=(
            ClassSpace(
                node=node,
                on_cores=each.on_cores,
                on_device=each.on_device,
                patterns=each.patterns,
            ),
        ),
        mode=None if mode is None else replace(mode, shards=1),
        schedule=space.schedule,
        environments=(1, environments),
        groups=space.groups,
        in_flight=in_flight,
        pins=(),
    )
