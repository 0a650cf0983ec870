"""Counts become nodes. Devices are first dealt so that nodes of a class differ by at most one of each
pattern. Where that loses something against the counts, kinds of nodes are generated instead
(Dantzig and Wolfe): a master problem says what a node's rollout, ranks and environments are worth,
each class answers with the best node at these prices, and an integer program picks how many of each.

Invariant: the throughput of a binding is that of its nodes, each solved alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ebrl.planner import milp
from ebrl.planner.deal import deal, parts, ranks_by_node
from ebrl.planner.learning import Cut, first_cuts, throughput
from ebrl.planner.learning import cuts as tangents_at
from ebrl.planner.milp import Row
from ebrl.planner.node import NodeFill, charge, model_of, read, solve_node, uses
from ebrl.planner.request import pinned
from ebrl.planner.search import TOLERANCE, Allocation, Found
from ebrl.planner.solver import INFINITY, Model, solve
from ebrl.planner.space import Pattern, Space

ROUNDS = 20
DEAR = 1e5
PRICING_EFFORT = 60  # nodes of the search tree
MASTER_EFFORT = 2000
PROMISING = 40  # patterns that a node is made of, beside those in use
SLACK = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """`value` is in the terms of the objective: throughput, or what is minimised, negative; −inf
    where the throughput that was asked for is not reached."""

    nodes: tuple[NodeFill, ...]
    throughput: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """An answer with its binding; `bound` is in the terms of the objective."""

    found: Found
    binding: Binding
    bound: float

    @property
    def value(self) -> float:
        return self.binding.value


def bind(found: Allocation, *, bound: float, resolution: float) -> Binding:
    """Deal; where that falls short of the bound, generate kinds of nodes."""
    space = found.space
    dealt = _deal(found)
    if len(space.classes) == 1 and space.classes[0].node.count == 1:
        return dealt
    if dealt.value >= bound - abs(bound) * resolution / 2:
        return dealt
    generated = _generate(found, dealt, resolution)
    return max((dealt, generated), key=lambda each: each.value)


def _binding(space: Space, nodes: Sequence[NodeFill]) -> Binding:
    seen: Counter[int] = Counter()
    placed = []
    for node in nodes:
        placed.append(replace(node, index=seen[node.k]))
        seen[node.k] += 1
    rollout = math.fsum(node.rollout for node in nodes)
    learner = math.fsum(node.learner for node in nodes)
    reached = throughput(space.schedule, space.mode, rollout, learner)
    value = reached if space.objective == "throughput" else -sum(cost(space, n) for n in nodes)
    if space.at_least is not None and reached < space.at_least:
        value = -math.inf
    return Binding(nodes=tuple(placed), throughput=reached, value=value)


def cost(space: Space, node: NodeFill) -> float:
    """What the objective counts of one node: its price, or its devices in use."""
    if space.objective == "cost":
        return space.classes[node.k].node.price_per_hour or 0.0
    return float(len(node.patterns))


# -- dealing -----------------------------------------------------------------------------------------


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
    return _binding(space, nodes)


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
        model.high[made.devices[0, pattern]] = count
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
            model.low[made.learner] = (1 - SLACK) * wanted / (made.scale * demand.items)
            model.objective[made.learner] = 1e-6
    outcome = solve_node(made)
    return read(space, k, made, outcome) if outcome.values else None


# -- generating --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Master:
    model: Model
    throughput: int
    short: int
    columns: list[int]
    rows: dict[Row, int]
    rollout: int
    capacity: int


def _generate(found: Allocation, dealt: Binding, resolution: float) -> Binding:
    """Kinds of nodes at the master's prices, then how many of each."""
    space = found.space
    kinds: list[NodeFill] = []
    for node in dealt.nodes:
        plain = replace(node, index=0)
        if plain not in kinds:
            kinds.append(plain)
    models = [_prepared(found, k) for k in range(len(space.classes))]
    tangents = list(first_cuts(space.schedule, space.mode)) if space.mode else [ROLLOUT]
    scale = max(found.throughput, space.at_least or 0.0, 1e-9)
    for _ in range(ROUNDS):
        master = _master(space, kinds, tangents, scale)
        outcome = solve(master.model, relaxed=True)
        if not outcome.values:
            break
        more = _cut(space, master, outcome.values, scale)
        tangents += more
        prices = {row: outcome.duals[number] for row, number in master.rows.items()}
        entered = False
        for k in range(len(space.classes)):
            fill = _best_node(found, k, models[k], prices)
            if fill is None or fill in kinds:
                continue
            worth = -math.fsum(prices.get(row, 0.0) * c for row, c in uses(space, fill).items())
            worth -= 0.0 if space.objective == "throughput" else cost(space, fill)
            if worth > 1e-6 / max(1, space.classes[k].node.count):
                kinds.append(fill)
                entered = True
        if not more and not entered:
            break
    for _ in range(ROUNDS):
        master = _master(space, kinds, tangents, scale)
        outcome = solve(master.model, relative_gap=resolution / 8, node_limit=MASTER_EFFORT)
        more = _cut(space, master, outcome.values, scale) if outcome.values else []
        if not more:
            break
        tangents += more
    if not outcome.values or outcome.values[master.short] > SLACK:
        return dealt
    nodes = [
        kind
        for kind, column in sorted(
            zip(kinds, master.columns, strict=True), key=lambda pair: pair[0].k
        )
        for _ in range(round(outcome.values[column]))
    ]
    return _binding(space, nodes)


ROLLOUT = Cut(rollout=1.0, learner=0.0, constant=0.0)


def _master(
    space: Space, kinds: Sequence[NodeFill], tangents: Sequence[Cut], scale: float
) -> _Master:
    """Throughput over counts of kinds of nodes."""
    model = Model()
    rows: dict[Row, int] = {}
    wanted = None if space.at_least is None else space.at_least * (1 + milp.SAFETY) / scale
    total = model.column("throughput", objective=1.0 if wanted is None else 0.0)
    # What is missing of the throughput that was asked for: dear, so that prices say to get it.
    short = model.column("short", high=wanted or 0.0, objective=-DEAR)
    if wanted is not None:
        model.row("at least", {total: 1.0, short: 1.0}, low=wanted)
    rollout, capacity = model.column("rollout"), model.column("capacity")
    rows["rollout",] = model.row("rollout", {rollout: -1.0}, low=0.0)
    rows["capacity",] = model.row("capacity", {capacity: -1.0}, low=0.0)
    for k, each in enumerate(space.classes):
        rows["nodes", k] = model.row("nodes", {}, high=each.node.count)
    low, high = space.environments
    rows["most environments",] = model.row("environments", {}, high=high)
    if math.isfinite(space.in_flight):
        rows["staleness",] = model.row("staleness", {}, high=space.in_flight)
    for s, demand in enumerate(space.demands):
        if demand.learns and space.mode is not None:
            rows["ranks", s] = model.row("ranks", {}, high=space.mode.ranks)
            rows["shares", s] = model.row("shares", {}, high=space.mode.batch)
            if space.mode.shards > 1:
                rows["shards", s] = model.row("shards", {}, low=space.mode.shards)
            if space.mode.span != "cluster":
                rows["hosts",] = model.row("hosts", {}, high=1.0)
        elif not demand.loop:
            rows["pace", s] = model.row("pace", {rollout: -demand.items}, low=0.0)
        if (replicas := pinned(space.pins, demand.name, "replicas")) is not None:
            rows["pin", s] = model.row("pin", {}, low=replicas, high=replicas)
    columns = []
    for kind in kinds:
        column = model.column(
            "kind",
            high=space.classes[kind.k].node.count,
            integer=True,
            objective=0.0 if wanted is None else -cost(space, kind),
        )
        columns.append(column)
        used = uses(space, kind)
        for s, demand in enumerate(space.demands):
            if demand.learns:
                used["shards", s] = used.get(("ranks", s), 0.0)
        for row, amount in used.items():
            if row in rows:
                unit = scale if row[0] in ("rollout", "capacity") else 1.0
                unit = scale if row[0] == "pace" else unit
                model.rows[rows[row]][column] = amount / unit
    for cut in tangents:
        terms = {total: 1.0, rollout: -cut.rollout, capacity: -cut.learner}
        model.row("tangent", terms, high=cut.constant / scale)
    return _Master(model, total, short, columns, rows, rollout, capacity)


def _cut(space: Space, master: _Master, values: Sequence[float], scale: float) -> list[Cut]:
    if space.mode is None:
        return []
    rollout, capacity = values[master.rollout] * scale, values[master.capacity] * scale
    if rollout <= 0 or capacity <= 0:
        return []
    real = throughput(space.schedule, space.mode, rollout, capacity)
    if values[master.throughput] * scale <= real * (1 + TOLERANCE):
        return []
    return list(tangents_at(space.schedule, space.mode, rollout, capacity))


def _prepared(found: Allocation, k: int) -> tuple[Pattern, ...]:
    """Patterns that a node may be made of: those in use and the most promising ones."""
    return tuple(dict.fromkeys((*sorted(found.devices[k]), *found.promising[k][:PROMISING])))


def _best_node(
    found: Allocation, k: int, patterns: Sequence[Pattern], prices: Mapping[Row, float]
) -> NodeFill | None:
    """The node that is worth most at these prices."""
    space = found.space
    made = model_of(space, k, patterns, space.environments[1])
    unit = max(found.throughput, space.at_least or 0.0, 1e-9)
    scaled = dict(prices)
    for row in prices:
        if row[0] in ("rollout", "capacity", "pace"):
            scaled[row] = -prices[row] / unit if row[0] != "pace" else prices[row] / unit
    charge(made, space, scaled)
    if space.objective == "devices":
        for column in made.devices.values():
            made.model.objective[column] -= 1.0
    outcome = solve_node(made, resolution=5e-4, node_limit=PRICING_EFFORT)
    return read(space, k, made, outcome) if outcome.values else None
