"""Kinds of nodes, generated (Dantzig and Wolfe): a master problem says what a node's rollout, ranks
and environments are worth, each class answers with the best node at these prices, and an integer
program picks how many of each.

Invariant: a kind is a node that was solved alone, so what the master adds up, the nodes can do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ebrl.planner.binding.node import (
    ROLLOUT,
    SLACK,
    NodeFill,
    charge,
    model_of,
    read,
    solve_node,
    uses,
)
from ebrl.planner.binding.result import Binding, binding, cost
from ebrl.planner.model import milp
from ebrl.planner.model.allocation import Allocation
from ebrl.planner.model.learning import Cut, first_cuts, throughput
from ebrl.planner.model.learning import cuts as tangents_at
from ebrl.planner.model.milp import Row
from ebrl.planner.model.request import pinned
from ebrl.planner.model.search import TOLERANCE
from ebrl.planner.model.solver import Model, solve
from ebrl.planner.model.space import Pattern, Space

ROUNDS = 20
DEAR = 1e5
PRICING_EFFORT = 60  # nodes of the search tree
MASTER_EFFORT = 2000
PROMISING = 40  # patterns that a node is made of, beside those in use


class _Master(msgspec.Struct):
    model: Model
    throughput: int
    short: int
    columns: list[int]
    rows: dict[Row, int]
    rollout: int
    capacity: int


def generate(found: Allocation, dealt: Binding, resolution: float) -> Binding:
    """Kinds of nodes at the master's prices, then how many of each."""
    space = found.space
    kinds: list[NodeFill] = []
    for node in dealt.nodes:
        plain = replace(node, index=0)
        if plain not in kinds:
            kinds.append(plain)
    models = [promising(found, k) for k in range(len(space.classes))]
    tangents = list(first_cuts(space.mode)) if space.mode else [ROLLOUT]
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
    return binding(space, nodes)


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
    _, high = space.environments
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


def promising(found: Allocation, k: int) -> tuple[Pattern, ...]:
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
    charge(made, scaled)
    if space.objective == "devices":
        for column in made.devices.values():
            made.model.objective[column] -= 1.0
    outcome = solve_node(made, resolution=5e-4, node_limit=PRICING_EFFORT, presolve=False)
    return read(space, k, made, outcome) if outcome.values else None
