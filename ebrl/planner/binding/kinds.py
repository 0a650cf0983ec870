"""Kinds of nodes, generated (Dantzig and Wolfe): a master problem says what a node's rollout, ranks
and environments are worth, each class answers with the best node at these prices, and an integer
program picks how many of each.

Invariant: a kind is a node that was solved alone, so what the master adds up, the nodes can do.
"""

from __future__ import annotations

import math
from collections import Counter
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
from ebrl.planner.binding.polish import together
from ebrl.planner.binding.result import Binding, binding, cost, fits, total_uses
from ebrl.planner.model import milp
from ebrl.planner.model.allocation import Allocation
from ebrl.planner.model.learning import Cut, first_cuts, throughput
from ebrl.planner.model.learning import cuts as tangents_at
from ebrl.planner.model.milp import Built, Row
from ebrl.planner.model.request import pinned
from ebrl.planner.model.search import TOLERANCE
from ebrl.planner.model.solver import INFINITY, Model, solve
from ebrl.planner.model.space import Pattern, Space

ROUNDS = 20
DIVE_ROUNDS = 6
FEW = 16  # nodes: fixed one at a time
LAST = 2  # nodes that are planned together
DEAR = 1e5
MOST = 1e4  # times the throughput that was found: more than there is
PRICING_EFFORT = 60  # nodes of the search tree
MASTER_EFFORT = 2000
PROMISING = 40  # patterns that a node is made of, beside those in use


class Master(msgspec.Struct):
    """Throughput over counts of kinds of nodes."""

    model: Model
    throughput: int
    short: int
    columns: list[int]
    rows: dict[Row, int]
    rollout: int
    capacity: int


class Kinds:
    """The kinds known so far and the tangents met, of one search; both only grow."""

    def __init__(
        self, found: Allocation, begun: Sequence[NodeFill], *, listed: bool = False
    ) -> None:
        """`listed`: the space has every pattern there is."""
        self.listed = listed
        self.found, self.space = found, found.space
        self.scale = max(found.throughput, self.space.at_least or 0.0, 1e-9)
        self.kinds = list(dict.fromkeys(replace(node, index=0) for node in begun))
        self.tangents = list(first_cuts(self.space.mode)) if self.space.mode else [ROLLOUT]
        self.patterns = [promising(found, k) for k in range(len(self.space.classes))]

    def relaxed(self, fixed: Sequence[NodeFill] = (), rounds: int = ROUNDS) -> list[float]:
        """Counts of the kinds beside those that are fixed, in fractions; kinds enter while one is
        worth its place. Empty where there is no answer."""
        values: list[float] = []
        for _ in range(rounds):
            made = master(self.space, self.kinds, self.tangents, self.scale, fixed)
            outcome = solve(made.model, relaxed=True)
            if not outcome.values:
                return []
            values = [outcome.values[column] for column in made.columns]
            more = _cut(self.space, made, outcome.values, self.scale)
            self.tangents += more
            prices = {row: outcome.duals[number] for row, number in made.rows.items()}
            entered = [self._enter(k, prices) for k in range(len(self.space.classes))]
            if not more and not any(entered):
                break
        return values + [0.0] * (len(self.kinds) - len(values))

    def _enter(self, k: int, prices: Mapping[Row, float]) -> bool:
        """Does the class's best node at these prices pay?"""
        space = self.space
        fill = _best_node(self.found, k, self.patterns[k], prices)
        if fill is None or fill in self.kinds:
            return False
        worth = -math.fsum(prices.get(row, 0.0) * c for row, c in uses(space, fill).items())
        worth -= 0.0 if space.objective == "throughput" else cost(space, fill)
        if worth <= 1e-6 / max(1, space.classes[k].node.count):
            return False
        self.kinds.append(fill)
        return True

    def whole(self, resolution: float) -> list[NodeFill] | None:
        """How many of each kind, in whole numbers."""
        for _ in range(ROUNDS):
            made = master(self.space, self.kinds, self.tangents, self.scale)
            outcome = solve(made.model, relative_gap=resolution / 8, node_limit=MASTER_EFFORT)
            if not outcome.values:
                return None
            more = _cut(self.space, made, outcome.values, self.scale)
            if not more:
                break
            self.tangents += more
        if outcome.values[made.short] > SLACK:
            return None
        return [
            kind
            for kind, column in zip(self.kinds, made.columns, strict=True)
            for _ in range(round(outcome.values[column]))
        ]


def generate(known: Kinds, dealt: Binding, resolution: float, enough: float) -> Binding:
    """Kinds of nodes at the master's prices, then how many of each: by an integer program, and
    where that is not enough, by fixing some and generating for the rest."""
    space = known.space
    known.relaxed()
    counted = known.whole(resolution)
    best = dealt if counted is None else binding(space, sorted(counted, key=lambda n: n.k))
    if best.value >= enough or space.objective != "throughput":
        return best
    dived = binding(space, sorted(_dive(known), key=lambda node: node.k))
    return max((best, dived), key=lambda each: each.value)


def _dive(known: Kinds) -> list[NodeFill]:
    """Nodes, fixed where the fractions are clearest, with new kinds for those that are left; the
    last ones are planned together."""
    space = known.space
    fixed: list[NodeFill] = []
    last = 1 if space.mode is not None and space.mode.span == "node" else LAST
    while True:
        taken = Counter(node.k for node in fixed)
        free = [
            k for k, each in enumerate(space.classes) for _ in range(each.node.count - taken[k])
        ]
        values = known.relaxed(fixed, DIVE_ROUNDS) if len(free) > last else []
        if not values:
            nodes = [(k, known.patterns[k]) for k in free[:last]]
            return fixed + (together(space, nodes, fixed) or [])
        counts = [math.floor(value + 1e-6) for value in values]
        if len(free) <= FEW or not any(counts):
            at = max(range(len(values)), key=lambda i: (_clear(known, fixed, i), values[i], -i))
            counts = [int(i == at) for i in range(len(values))]
        whole = [kind for kind, n in zip(known.kinds, counts, strict=False) for _ in range(n)]
        fixed += whole[: len(free) - last]


def _clear(known: Kinds, fixed: Sequence[NodeFill], i: int) -> bool:
    """May there be one more of this kind?"""
    return fits(known.space, total_uses(known.space, [*fixed, known.kinds[i]]))


def master(
    space: Space,
    kinds: Sequence[NodeFill],
    tangents: Sequence[Cut],
    scale: float,
    fixed: Sequence[NodeFill] = (),
) -> Master:
    """Throughput over counts of kinds of nodes, beside nodes that are fixed."""
    model = Model()
    rows: dict[Row, int] = {}
    used = total_uses(space, fixed)
    wanted = None if space.at_least is None else space.at_least * (1 + milp.SAFETY) / scale
    total = model.column("throughput", objective=1.0 if wanted is None else 0.0, high=MOST)
    # What is missing of the throughput that was asked for: dear, so that prices say to get it.
    short = model.column("short", high=wanted or 0.0, objective=-DEAR)
    if wanted is not None:
        model.row("at least", {total: 1.0, short: 1.0}, low=wanted)
    rollout, capacity = (model.column(name, high=MOST) for name in ("rollout", "capacity"))
    for name, column in (("rollout", rollout), ("capacity", capacity)):
        rows[name,] = model.row(name, {column: -1.0}, low=-used[name,] / scale)

    def row(key: Row, low: float, high: float) -> None:
        low, high = low - used[key], high - used[key]
        rows[key] = model.row(str(key[0]), {}, low=low, high=high)

    for k, each in enumerate(space.classes):
        row(("nodes", k), -INFINITY, each.node.count)
    row(("most environments",), -INFINITY, space.environments[1])
    if math.isfinite(space.in_flight):
        row(("staleness",), -INFINITY, space.in_flight)
    for s, demand in enumerate(space.demands):
        if demand.learns and space.mode is not None:
            row(("ranks", s), -INFINITY, space.mode.ranks)
            row(("shares", s), -INFINITY, space.mode.batch)
            if space.mode.shards > 1:
                row(("shards", s), space.mode.shards, INFINITY)
            if space.mode.span != "cluster":
                row(("hosts",), -INFINITY, 1.0)
        elif not demand.loop:
            low = -used["pace", s] / scale
            rows["pace", s] = model.row("pace", {rollout: -demand.items}, low=low)
        if (replicas := pinned(space.pins, demand.name, "replicas")) is not None:
            row(("pin", s), replicas, replicas)
    columns = []
    for kind in kinds:
        column = model.column(
            "kind",
            high=space.classes[kind.k].node.count,
            integer=True,
            objective=0.0 if wanted is None else -cost(space, kind),
        )
        columns.append(column)
        for key, amount in total_uses(space, [kind]).items():
            if key in rows:
                unit = scale if key[0] in ("rollout", "capacity", "pace") else 1.0
                model.rows[rows[key]][column] = amount / unit
    for cut in tangents:
        terms = {total: 1.0, rollout: -cut.rollout, capacity: -cut.learner}
        model.row("tangent", terms, high=cut.constant / scale)
    return Master(model, total, short, columns, rows, rollout, capacity)


def _cut(space: Space, made: Master, values: Sequence[float], scale: float) -> list[Cut]:
    if space.mode is None:
        return []
    rollout, capacity = values[made.rollout] * scale, values[made.capacity] * scale
    if rollout <= 0 or capacity <= 0:
        return []
    real = throughput(space.schedule, space.mode, rollout, capacity)
    if values[made.throughput] * scale <= real * (1 + TOLERANCE):
        return []
    return list(tangents_at(space.schedule, space.mode, rollout, capacity))


def promising(found: Allocation, k: int) -> tuple[Pattern, ...]:
    """Patterns that a node may be made of: those in use and the most promising ones."""
    return tuple(dict.fromkeys((*sorted(found.devices[k]), *found.promising[k][:PROMISING])))


def _best_node(
    found: Allocation, k: int, patterns: Sequence[Pattern], prices: Mapping[Row, float]
) -> NodeFill | None:
    """The node that is worth most at these prices."""
    made = priced(found, k, patterns, prices)
    outcome = solve_node(made, resolution=5e-4, node_limit=PRICING_EFFORT, presolve=False)
    return read(found.space, k, made, outcome) if outcome.values else None


def priced(
    found: Allocation,
    k: int,
    patterns: Sequence[Pattern],
    prices: Mapping[Row, float],
    *,
    plain: bool = False,
) -> Built:
    """The model of one node, for what it is worth at the master's prices."""
    space = found.space
    made = model_of(space, [(k, patterns)], space.environments[1], plain=plain)
    charge(made, at_node(found, prices))
    if space.objective == "devices":
        for column in made.devices.values():
            made.model.objective[column] -= 1.0
    return made


def at_node(found: Allocation, prices: Mapping[Row, float]) -> dict[Row, float]:
    """The master's prices in the units of a node."""
    unit = max(found.throughput, found.space.at_least or 0.0, 1e-9)
    scaled = dict(prices)
    for row in prices:
        if row[0] in ("rollout", "capacity"):
            scaled[row] = -prices[row] / unit
        elif row[0] == "pace":
            scaled[row] = prices[row] / unit
        elif row[0] == "shards":
            scaled["ranks", row[1]] = prices.get(("ranks", row[1]), 0.0) + prices[row]
    return scaled
