"""Counts become nodes. Devices are dealt so that nodes of a class differ by at most one of each
pattern; where that loses something against the counts, kinds of nodes are generated instead.

Invariant: each node is solved alone, for the rollout that its own devices and cores keep up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from ebrl.planner.binding.deal import deal, parts, ranks_by_node
from ebrl.planner.binding.kinds import generate, promising
from ebrl.planner.binding.node import LOOSE, SLACK, NodeFill, model_of, read, solve_node
from ebrl.planner.binding.polish import again, polish
from ebrl.planner.binding.result import Binding, binding
from ebrl.planner.model.allocation import Allocation
from ebrl.planner.model.space import Pattern, Space


def bind(found: Allocation, *, bound: float, resolution: float) -> Binding:
    """Deal; where that falls short of the bound, generate kinds of nodes, then polish."""
    space = found.space
    if sum(each.node.count for each in space.classes) == 1:
        hand = found.devices[0]
        node = again(space, 0, (), tuple(hand), hand)
        return binding(space, [node] if node is not None else [])
    dealt = _deal(found)
    enough = bound - abs(bound) * resolution / 2
    if dealt.value >= enough:
        return dealt
    best = max((dealt, generate(found, dealt, resolution)), key=lambda each: each.value)
    if best.value >= enough:
        return best
    return polish(found, best, [promising(found, k) for k in range(len(space.classes))])


def _deal(found: Allocation) -> Binding:
    space = found.space
    nodes: list[NodeFill] = []
    for k, each in enumerate(space.classes):
        hands = deal(found, k)
        ranks = ranks_by_node(found, k)
        solved: dict[object, NodeFill | None] = {}
        weights = [_needs(space, k, hand) for hand in hands]
        given = parts(found.environments[k], weights if any(weights) else [1] * len(weights))
        for index in range(each.node.count):
            hand = tuple(sorted(hands[index].items()))
            rank = tuple(sorted(ranks[index].items()))
            if not hand and not rank and not given[index]:
                continue
            key = (hand, rank, given[index])
            if key not in solved:
                solved[key] = _fill(found, k, dict(hand), dict(rank), given[index])
            fill = solved[key]
            if fill is not None:
                nodes.append(fill)
    return binding(space, nodes)


def _needs(space: Space, k: int, hand: Mapping[Pattern, int]) -> int:
    """Environments that the loop's seats on these devices are meant for."""
    needed: Counter[str] = Counter()
    for pattern, count in hand.items():
        for o in pattern.members:
            option = space.classes[k].on_device[o]
            if space.demand(option.stage).loop:
                needed[option.stage] += count * (option.resident or option.batch * space.groups)
    return max(needed.values(), default=0)


def _fill(
    found: Allocation,
    k: int,
    hand: Mapping[Pattern, int],
    ranks: Mapping[int, int],
    environments: int,
) -> NodeFill | None:
    """The most that one node can keep up with these devices and ranks."""
    space, each = found.space, found.space.classes[k]
    everywhere = max(1, sum(found.environments))
    part = replace(space, in_flight=space.in_flight * environments / everywhere)
    made = model_of(part, k, tuple(hand), environments)
    model = made.model
    for pattern, count in hand.items():
        column = made.devices[0, pattern]
        model.high[column] = count
        if any(space.demand(each.on_device[o].stage).learns for o in pattern.members):
            model.low[column] = count
    for j, option in enumerate(each.on_cores):
        if space.demand(option.stage).learns:
            count, whole = ranks.get(j, 0), found.replicas[k].get(j, 0)
            column, works = made.replicas[0, j], made.busy_cores[0, j]
            model.low[column] = model.high[column] = count
            model.high[works] = found.busy[k].get(j, 0.0) * count / whole if whole else 0.0
            model.low[works] = max(0.0, model.high[works] - SLACK)
    total = max(1, sum(found.devices[k].values()))
    for s, demand in enumerate(space.demands):
        if not demand.loop and not demand.learns:  # its pace is kept by all nodes together
            number = made.rows["pace", s]
            share = sum(hand.values()) / total if hand else 1 / each.node.count
            model.rows[number].pop(made.rollout[0], None)
            model.row_low[number] = demand.items * found.throughput * share * (1 - SLACK)
        elif demand.learns and made.learner >= 0:
            wanted = math.fsum(found.learning[k].get(p, 0.0) * n for p, n in hand.items())
            model.low[made.learner] = (1 - LOOSE) * wanted / (made.scale * demand.items)
            model.objective[made.learner] = 1e-6
    outcome = solve_node(made)
    return read(space, k, made, outcome) if outcome.values else None
