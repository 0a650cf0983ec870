"""How good can any binding be? The price of what nodes share, and the best node at that price.

A relaxation that counts devices by class lets environments of one node be served by another's
devices, and a node's devices be no whole number; the best nodes at the master's prices do not
(Lagrangian bound of Dantzig and Wolfe). Invariant: the bound holds for every plan of the space.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ebrl.planner.binding.kinds import Kinds, at_node, master, priced
from ebrl.planner.binding.node import NodeFill, read, shared, solve_node
from ebrl.planner.model import pricing
from ebrl.planner.model.milp import Row
from ebrl.planner.model.solver import Outcome, certificate, solve
from ebrl.planner.model.space import Pattern
from ebrl.planner.model.worths import Worths

ROUNDS = 4
ENTERING_ROUNDS = 30
ENTERING = 24  # patterns a round
MARGIN = 1e-9  # of all throughput: what a pattern has to be worth beyond its device to enter
MOST = 800  # patterns that a node is solved with
EFFORT = 500  # nodes of the search tree, a node
RESOLUTION = 5e-5
SAFETY = 1e-6  # relative, about what the solver keeps its rows to


def prove(known: Kinds, limit: float, value: float, enough: float) -> float:
    """What no plan exceeds, at most `limit`, a bound that is known. `value` is that of a plan at
    hand; a bound within `enough` of it (relative) is as good as any."""
    space, bound = known.space, limit
    if space.objective != "throughput" or any(pin.key == "replicas" for pin in space.pins):
        return limit
    for _ in range(ROUNDS):
        known.relaxed()
        made = master(space, known.kinds, known.tangents, known.scale)
        outcome = solve(made.model, relaxed=True)
        if not outcome.values:
            break
        prices = {row: outcome.duals[number] for row, number in made.rows.items()}
        duals, entered = list(outcome.duals), False
        for k in range(len(space.classes)):
            worth, fill = _best_node(known, k, prices)
            duals[made.rows["nodes", k]] = max(0.0, worth)
            if fill is not None and fill not in known.kinds:
                known.kinds.append(fill)
                entered = True
        if all(math.isfinite(dual) for dual in duals):
            proven = certificate(made.model, duals) * known.scale * (1 + SAFETY)
            bound = min(bound, max(value, proven))
        if not entered or bound - value <= enough * bound:
            break
    return bound


def _best_node(known: Kinds, k: int, prices: Mapping[Row, float]) -> tuple[float, NodeFill | None]:
    """What no node of the class is worth more than at these prices, and the best that was found.

    As for all devices, patterns enter a linear program until none pays; a node with a pattern that
    misses its price by more than the whole numbers cost is no better than the best in hand.
    """
    found, space = known.found, known.space
    patterns, whole = _entered(known, k, prices)
    made = priced(found, k, patterns, prices, plain=True)
    relaxed = solve(made.model, relaxed=True)
    if not relaxed.values:
        return math.inf, None
    limit = certificate(made.model, relaxed.duals) + MARGIN * space.classes[k].node.devices
    best = solve_node(made, resolution=RESOLUTION, node_limit=EFFORT, presolve=False)
    if not best.values:
        return limit, None
    fill = read(space, k, made, best)
    if whole:
        return min(limit, best.bound), fill
    allowance = max(0.0, limit - best.objective) * (1 + SAFETY)
    close = pricing.near(
        made.space,
        0,
        Worths(made.space, 0),
        _local(known, made.rows, relaxed, prices),
        allowance=allowance,
        most=MOST,
    )
    if close is None or len(close) > MOST:
        return limit, fill
    made = priced(found, k, tuple(dict.fromkeys((*patterns, *close))), prices, plain=True)
    again = solve_node(made, resolution=RESOLUTION, node_limit=EFFORT, presolve=False)
    if not again.values:
        return limit, fill
    if again.objective > best.objective:
        fill = read(space, k, made, again)
    return min(limit, max(again.bound, best.objective)), fill


def _entered(known: Kinds, k: int, prices: Mapping[Row, float]) -> tuple[tuple[Pattern, ...], bool]:
    """Patterns enough for the linear program of a node; are they all that there are?"""
    each, patterns = known.space.classes[k], known.patterns[k]
    if not each.on_device or known.listed:
        return each.patterns, True
    for _ in range(ENTERING_ROUNDS):
        made = priced(known.found, k, patterns, prices, plain=True)
        outcome = solve(made.model, relaxed=True)
        if not outcome.values:
            break
        new = pricing.priced(
            made.space,
            0,
            Worths(made.space, 0),
            _local(known, made.rows, outcome, prices),
            margin=MARGIN,
            most=ENTERING,
        )
        patterns, before = tuple(dict.fromkeys((*patterns, *(p for _, p in new)))), len(patterns)
        if len(patterns) == before:
            break
    return patterns, False


def _local(
    known: Kinds, rows: Mapping[Row, int], outcome: Outcome, prices: Mapping[Row, float]
) -> dict[Row, float]:
    """Prices of a node's own rows, and of those that all share."""
    charged = at_node(known.found, prices)
    return {
        row: outcome.duals[number] + (charged.get(row, 0.0) if shared(row) else 0.0)
        for row, number in rows.items()
    }
