"""What binding answers: nodes, and the throughput and the objective's value that they come to.

Invariant: the throughput of a binding is that of its nodes, each solved alone.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ebrl.planner.binding.node import LOOSE, NodeFill, uses
from ebrl.planner.model.allocation import Found
from ebrl.planner.model.learning import throughput
from ebrl.planner.model.milp import Row
from ebrl.planner.model.request import pinned
from ebrl.planner.model.space import Space


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """`value` is in the terms of the objective: throughput, or what is minimised, negative; −inf
    where the throughput that was asked for is not reached."""

    nodes: tuple[NodeFill, ...]
    throughput: float
    value: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with its binding; `bound` is in the terms of the objective."""

    found: Found
    binding: Binding
    bound: float

    @property
    def value(self) -> float:
        return self.binding.value


def binding(space: Space, nodes: Sequence[NodeFill]) -> Binding:
    seen: Counter[int] = Counter()
    placed = []
    for node in nodes:
        placed.append(replace(node, index=seen[node.k]))
        seen[node.k] += 1
    rollout = math.fsum(node.rollout for node in nodes)
    learner = math.fsum(node.learner for node in nodes)
    reached = throughput(space.schedule, space.mode, rollout, learner)
    value = reached if space.objective == "throughput" else -sum(cost(space, n) for n in nodes)
    if not _kept(space, nodes, reached):
        value = -math.inf
    return Binding(nodes=tuple(placed), throughput=reached, value=value)


def _kept(space: Space, nodes: Sequence[NodeFill], reached: float) -> bool:
    """Is everything kept that was asked for beyond what each node keeps by itself?"""
    used = total_uses(space, nodes)
    for s, demand in enumerate(space.demands):
        replicas = pinned(space.pins, demand.name, "replicas")
        if replicas is not None and used["pin", s] != replicas:
            return False
        if demand.learns and space.mode is not None and used["ranks", s] < space.mode.shards:
            return False
        wanted = 0.0 if demand.loop or demand.learns else demand.items * used["rollout",]
        if used["pace", s] < wanted * (1 - LOOSE):
            return False
    return fits(space, used) and (space.at_least is None or reached >= space.at_least)


def fits(space: Space, used: Mapping[Row, float]) -> bool:
    """Do nodes that use so much leave what all nodes share within its limits?"""
    limits: dict[Row, float] = {
        ("most environments",): space.environments[1],
        ("staleness",): space.in_flight,
    }
    for s, demand in enumerate(space.demands):
        if demand.learns and space.mode is not None:
            limits["ranks", s], limits["shares", s] = space.mode.ranks, space.mode.batch
            if space.mode.span != "cluster":
                limits["hosts",] = 1.0
    return all(used.get(row, 0.0) <= limit * (1 + LOOSE) for row, limit in limits.items())


def total_uses(space: Space, nodes: Sequence[NodeFill]) -> dict[Row, float]:
    """What nodes put into the rows that all share."""
    found: dict[Row, float] = defaultdict(float)
    for node in nodes:
        for row, amount in uses(space, node).items():
            found[row] += amount
            if row[0] == "ranks":
                found["shards", row[1]] += amount
    return found


def cost(space: Space, node: NodeFill) -> float:
    """What the objective counts of one node: its price, or its devices in use."""
    if space.objective == "cost":
        return space.classes[node.k].node.price_per_hour or 0.0
    return float(len(node.patterns))
