"""Shares of cores become sets of core ids.

A replica that keeps most of a core busy gets cores of its own where that leaves enough for the
rest; everything else shares the remaining cores. Invariant: the shares that meet on a set of
cores never exceed its size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ebrl.planner.hardware import NodeClass
from ebrl.planner.model.space import SHARED_CORES

OWN = 0.75  # of its cores, from which a replica has them to itself


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Cores that a replica needs; `numa_hint` keeps replicas of one device near each other."""

    share: float
    numa_hint: int | None = None


def core_ids(node: NodeClass) -> tuple[int, ...]:
    """The node's cores, NUMA domain by domain where the topology is known."""
    if node.numa:
        return tuple(core for domain in node.numa for core in domain)
    return tuple(range(node.cores))


def place(ids: Sequence[int], node: NodeClass, wishes: Sequence[Wish]) -> list[tuple[int, ...]]:
    """A core set for each wish."""
    everything = tuple(sorted(ids))
    if node.cores <= SHARED_CORES or not wishes:
        return [everything] * len(wishes)
    owners: dict[int, int] = {}
    pool, rest = len(ids), math.fsum(wish.share for wish in wishes)
    order = sorted(range(len(wishes)), key=lambda i: (-wishes[i].share, i))
    for i in order:
        wanted = math.ceil(wishes[i].share - 1e-9)
        if wanted == 0 or wishes[i].share < OWN * wanted:
            continue
        others = len(wishes) - len(owners) - 1
        left = rest - wishes[i].share
        if pool - wanted < left + 1e-9 or (others and pool - wanted < 1):
            continue
        owners[i] = wanted
        pool -= wanted
        rest = left
    found: list[tuple[int, ...]] = [()] * len(wishes)
    begin = 0
    for i in sorted(owners, key=lambda i: (_near(wishes[i]), i)):
        found[i] = tuple(sorted(ids[begin : begin + owners[i]]))
        begin += owners[i]
    shared = tuple(sorted(ids[begin:])) or everything
    return [chosen or shared for chosen in found]


def _near(wish: Wish) -> int:
    return -1 if wish.numa_hint is None else wish.numa_hint
