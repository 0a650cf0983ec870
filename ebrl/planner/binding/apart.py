"""Few nodes, each a class of its own: then the program that counts devices is exact.

Invariant: the bound holds for every plan of the space, and the nodes that come out are each solved
alone, like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from ebrl.planner.binding.node import NodeFill
from ebrl.planner.binding.result import Binding, binding
from ebrl.planner.model import search
from ebrl.planner.model.allocation import Allocation, Relaxed
from ebrl.planner.model.space import ClassSpace

NODES = 3  # with devices
EFFORT = 500  # nodes of the search tree
PATTERNS = 1000  # over all nodes: more take too long
Deal = Callable[[Allocation], Sequence[NodeFill]]


def few(relaxed: Relaxed) -> bool:
    """Are there so few nodes with devices that each can be told from the others?"""
    classes, mode = relaxed.space.classes, relaxed.space.mode
    nodes = sum(each.node.count for each in classes if each.on_device)
    return nodes <= NODES and (mode is None or mode.span != "node")


def apart(
    relaxed: Relaxed,
    best: Binding,
    limit: float,
    resolution: float,
    time_limit_s: float,
    deal: Deal,
) -> tuple[Binding, float]:
    """The best of this binding and of one that is solved node by node, and a bound."""
    space = relaxed.space
    classes: list[ClassSpace] = []
    homes: list[int] = []
    # Other patterns make no plan that is better by more than half the resolution.
    gap = (relaxed.bound - best.value * (1 + resolution / 2)) * (1 + 1e-6)
    wide = search.within(relaxed, gap)
    if (
        wide is None
        or sum(len(w) * e.node.count for w, e in zip(wide, space.classes, strict=True)) > PATTERNS
    ):
        return best, limit
    for k, each in enumerate(space.classes):
        parts = each.node.count if each.on_device else 1
        for _ in range(parts):
            node = msgspec.structs.replace(each.node, count=each.node.count // parts)
            classes.append(replace(each, node=node, patterns=wide[k]))
            homes.append(k)
    found = search.best(
        replace(relaxed, space=replace(space, classes=tuple(classes)), worths=()),
        time_limit_s=time_limit_s,
        resolution=resolution,
        closed=True,
        effort=EFFORT,
    )
    bound = min(limit, max(found.bound, relaxed.bound - gap))
    if found.allocation is None:
        return best, bound
    nodes = [replace(node, k=homes[node.k]) for node in deal(found.allocation)]
    other = binding(space, sorted(nodes, key=lambda node: node.k))
    return max((best, other), key=lambda each: each.value), bound
