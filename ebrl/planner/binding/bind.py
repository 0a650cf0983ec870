"""Counts become nodes. Devices are dealt so that nodes of a class differ by at most one of each
pattern; where that loses something against the counts, kinds of nodes are generated instead.

Invariant: each node is solved alone, for the rollout that its own devices and cores keep up.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ebrl.planner.binding.apart import apart, few
from ebrl.planner.binding.deal import Hand, deal, in_loop, parts, ranks_by_node
from ebrl.planner.binding.kinds import Kinds, generate
from ebrl.planner.binding.node import LOOSE, SLACK, NodeFill, model_of, read, solve_node
from ebrl.planner.binding.polish import polish, together
from ebrl.planner.binding.prove import prove
from ebrl.planner.binding.result import Binding, binding
from ebrl.planner.model.allocation import Allocation, Found, Relaxed
from ebrl.planner.model.space import Pattern, Space

PROVEN = 1e-3  # relative: what is called proven
FEW = 16  # nodes of a class: every number of hosts is tried


def bind(
    relaxed: Relaxed, answer: Found, *, resolution: float, time_limit_s: float
) -> tuple[Binding, float]:
    """The binding, and a bound of every plan of the space. Deal; where that falls short of the
    bound, generate kinds of nodes, polish, and look whether the bound can be had at all."""
    found, bound = answer.allocation, answer.bound
    assert found is not None
    space = found.space
    if sum(each.node.count for each in space.classes) == 1:
        hand = found.devices[0]
        return binding(space, together(space, [(0, tuple(hand))], (), hand) or ()), bound
    begun = time.perf_counter()
    best = _deal(found)
    enough = bound - abs(bound) * resolution / 2
    if best.value >= enough:
        return best, bound
    # Which step is cut depends on the machine's load: only where a limit of time is met.
    late = begun + time_limit_s
    known = Kinds(found, best.nodes, listed=not relaxed.worths)
    best = max((best, generate(known, best, resolution, enough)), key=lambda each: each.value)
    if best.value < enough and time.perf_counter() < late:
        best = polish(found, best, known.patterns, enough)
    if best.value < enough and time.perf_counter() < late:
        bound = min(bound, prove(known, bound, best.value, resolution))
    left = late - time.perf_counter()
    unproven = bound - best.value > PROVEN * abs(bound) and space.objective == "throughput"
    if unproven and few(relaxed) and left > 0:
        best, bound = apart(relaxed, best, bound, resolution, left, lambda each: _deal(each).nodes)
    return best, bound


def _deal(found: Allocation) -> Binding:
    """Of the ways to deal each class, the one whose nodes roll out most together."""
    space = found.space
    nodes: list[NodeFill] = []
    for k in range(len(space.classes)):
        solved: dict[object, NodeFill | None] = {}
        ways = [_class_nodes(found, k, deal(found, k, m), solved) for m in _host_counts(found, k)]
        nodes += max(ways, key=lambda way: math.fsum(node.rollout for node in way))
    return binding(space, nodes)


def _host_counts(found: Allocation, k: int) -> list[int | None]:
    """Numbers of nodes that the loop's devices may be dealt to; None: all, first, so that it is
    taken where others are no better."""
    space, each = found.space, found.space.classes[k]
    options, nodes = each.on_device, each.node.count
    loop = {p: n for p, n in found.devices[k].items() if in_loop(space, k, p)}
    least = math.ceil(sum(loop.values()) / max(1, each.node.devices))
    if not loop or least >= nodes:
        return [None]
    counts = set(range(least, nodes)) if nodes <= FEW else {least, least + 1, least + 2}
    for demand in space.demands:  # as many hosts as there are devices for a stage: one for each
        mine = [
            n for p, n in loop.items() if any(options[o].stage == demand.name for o in p.members)
        ]
        counts |= {n for n in (sum(mine), max(mine, default=0)) if least <= n < nodes}
    return [None, *sorted(counts)]


def _class_nodes(
    found: Allocation, k: int, hands: Sequence[Hand], solved: dict[object, NodeFill | None]
) -> list[NodeFill]:
    """Each node of the class, solved with what it was dealt."""
    space = found.space
    nodes: list[NodeFill] = []
    ranks = ranks_by_node(found, k)
    weights = [_needs(space, k, hand) for hand in hands]
    given = parts(found.environments[k], weights if any(weights) else [1] * len(weights))
    for index, dealt in enumerate(hands):
        hand = tuple(sorted(dealt.items()))
        rank = tuple(sorted(ranks[index].items()))
        if not hand and not rank and not given[index]:
            continue
        key = (hand, rank, given[index])
        if key not in solved:
            solved[key] = _fill(found, k, dict(hand), dict(rank), given[index])
        fill = solved[key]
        if fill is not None:
            nodes.append(fill)
    return nodes


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
    made = model_of(part, [(k, tuple(hand))], environments)
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
