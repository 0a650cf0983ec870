"""Counts are dealt to the nodes of a class, evenly, or the loop's among some of them.

Invariant: what is dealt is what was counted, and no node gets more devices than it has.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence

from ebrl.planner.model.allocation import Allocation
from ebrl.planner.model.space import Pattern, Space

Hand = Counter[Pattern]


def deal(found: Allocation, k: int, hosts: int | None = None) -> list[Hand]:
    """Patterns by node; those with a learner that may not leave its node are kept together, and
    those of the loop on the first `hosts` nodes, if so many are named."""
    space, each = found.space, found.space.classes[k]
    nodes, mode = each.node.count, space.mode
    counts = found.devices[k]
    if mode is not None and mode.hardware == "gpu" and mode.span != "cluster" and nodes > 1:
        together = {
            pattern: count
            for pattern, count in counts.items()
            if any(space.demand(each.on_device[o].stage).learns for o in pattern.members)
        }
        return _filled(counts, [Counter(together)], nodes, each.node.devices)
    if hosts is None or hosts >= nodes:
        return _evenly(counts, nodes)
    loop = {pattern: count for pattern, count in counts.items() if in_loop(space, k, pattern)}
    hands = _evenly(loop, hosts)
    if any(hand.total() > each.node.devices for hand in hands):
        return []
    return _filled(counts, hands, nodes, each.node.devices)


def in_loop(space: Space, k: int, pattern: Pattern) -> bool:
    """Does it serve environments?"""
    options = space.classes[k].on_device
    return any(space.demand(options[o].stage).loop for o in pattern.members)


def _filled(
    counts: Mapping[Pattern, int], begun: Sequence[Hand], nodes: int, devices: int
) -> list[Hand]:
    """Hands that were begun, with all else where most devices are free."""
    hands: list[Hand] = [*begun, *(Counter[Pattern]() for _ in range(nodes - len(begun)))]
    freest = [(hand.total() - devices, i) for i, hand in enumerate(hands)]
    heapq.heapify(freest)
    left = Counter(counts)
    for hand in begun:
        left.subtract(hand)
    for pattern in sorted(counts):
        for _ in range(left[pattern]):
            taken, node = freest[0]
            hands[node][pattern] += 1
            heapq.heapreplace(freest, (taken + 1, node))
    return hands


def _evenly(counts: Mapping[Pattern, int], nodes: int) -> list[Hand]:
    """Each node the same, then what is left one by one."""
    hands: list[Hand] = [Counter() for _ in range(nodes)]
    turn = 0
    for pattern in sorted(counts):
        each, left = divmod(counts[pattern], nodes)
        if each:
            for hand in hands:
                hand[pattern] += each
        for _ in range(left):
            hands[turn % nodes][pattern] += 1
            turn += 1
    return hands


def ranks_by_node(found: Allocation, k: int) -> list[Counter[int]]:
    """Learner ranks on cores, by node: spread out, or all together where the mode says so."""
    space, each = found.space, found.space.classes[k]
    ranks = {
        j: count
        for j, count in found.replicas[k].items()
        if space.demand(each.on_cores[j].stage).learns
    }
    hands: list[Counter[int]] = [Counter() for _ in range(each.node.count)]
    if space.mode is not None and space.mode.span != "cluster":
        hands[0].update(ranks)
        return hands
    turn = 0
    for j in sorted(ranks):
        for _ in range(ranks[j]):
            hands[turn % len(hands)][j] += 1
            turn += 1
    return hands


def parts(count: int, weights: Sequence[int], limits: Sequence[int] | None = None) -> list[int]:
    """`count` in whole parts in proportion to the weights, by largest remainders; none above its
    limit."""
    whole = sum(weights)
    if whole == 0:
        return [0] * len(weights)
    found = [count * weight // whole for weight in weights]
    if limits is not None:
        found = [min(part, limit) for part, limit in zip(found, limits, strict=True)]
    order = sorted(range(len(weights)), key=lambda i: (-((count * weights[i]) % whole), i))
    left = count - sum(found)
    while left > 0:
        before = left
        for i in order:
            if left and weights[i] and (limits is None or found[i] < limits[i]):
                found[i] += 1
                left -= 1
        if left == before:
            break
    return found
