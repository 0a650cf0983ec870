"""All spaces of a compilation, searched in the order of what they could give at most.

Invariant: the bound that comes out covers every space, those included that were never solved in
integers because their own bound was no better than what was there.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ebrl.frontend.program import Program
from ebrl.planner.binding.bind import bind
from ebrl.planner.binding.result import Result
from ebrl.planner.hardware import Cluster
from ebrl.planner.model import search
from ebrl.planner.model.allocation import Relaxed
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.model.space import Space
from ebrl.planner.model.spaces import spaces
from ebrl.planner.profile import Point

LISTED = 100_000  # so many mixtures of nodes are tried
NOTHING = 1e-9  # environment steps a second that are none


def search_all(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> tuple[Result | None, float]:
    """The best result, with a bound over everything, and the seconds that solving took. Each space
    is relaxed, and solved in integers only where its bound is better than what is there."""
    seconds, begun = 0.0, time.perf_counter()
    best: Result | None = None
    bound = -math.inf
    groups = [
        (max(map(search.quick_bound, same)), same)
        for same in spaces(program, cluster, points, options)
    ]
    for limit, same in sorted(groups, key=lambda pair: -pair[0]):
        if best is not None and not _better(limit, best, options):
            bound = max(bound, limit)
            break
        for relaxed in sorted(_relaxed(same), key=lambda each: -each.bound):
            seconds += relaxed.seconds
            if not relaxed.feasible or relaxed.values["throughput"] <= NOTHING:
                continue
            if best is not None and not _better(relaxed.bound, best, options):
                bound = max(bound, relaxed.bound)
                continue
            left = max(0.1, begun + options.time_limit_s - time.perf_counter())
            answer = search.best(relaxed, time_limit_s=left, resolution=options.resolution)
            seconds += answer.seconds
            if answer.allocation is None:
                bound = max(bound, answer.bound)
                continue
            binding, proven = bind(
                relaxed,
                answer,
                resolution=options.resolution,
                time_limit_s=begun + options.time_limit_s - time.perf_counter(),
            )
            if time.perf_counter() - begun > options.time_limit_s:
                answer = replace(answer, status="time limit")
            bound = max(bound, proven)
            if binding.throughput > NOTHING and binding.value > -math.inf:
                result = Result(found=answer, binding=binding, bound=proven)
                best = result if best is None or result.value > best.value else best
    if best is None:
        return None, seconds
    if options.objective != "throughput":
        bound = -_up(-bound, cluster, options)
    return replace(best, bound=max(bound, best.value)), seconds


def _up(value: float, cluster: Cluster, options: CompileOptions) -> float:
    """The least that devices, or prices of whole nodes, can come to from this value on."""
    if options.objective == "devices":
        return math.ceil(value - 1e-4)
    (most, *rest) = sorted(cluster.nodes, key=lambda node: -node.count)
    if math.prod(node.count + 1 for node in rest) > LISTED:
        cents = [round((node.price_per_hour or 0.0) * 1e4) for node in cluster.nodes]
        step = math.gcd(*cents) / 1e4
        return math.ceil(value / step - 1e-4) * step if step > 0 else value
    price = most.price_per_hour or 0.0
    found = math.inf
    for counts in itertools.product(*(range(node.count + 1) for node in rest)):
        spent = math.fsum(n * (k.price_per_hour or 0.0) for n, k in zip(counts, rest, strict=True))
        more = math.ceil((value - spent) / price - 1e-4) if price > 0 and value > spent else 0
        if more <= most.count and spent + more * price >= value * (1 - 1e-4):
            found = min(found, spent + more * price)
    return max(value, found) if math.isfinite(found) else value


def _relaxed(same: Sequence[Space]) -> Iterator[Relaxed]:
    """Of spaces that differ in their shards alone, those that may hold the best plan."""
    for space in same:
        found = search.relax(space)
        yield found
        if found.feasible and not _spread_for_shards(found):
            return


def _better(bound: float, best: Result, options: CompileOptions) -> bool:
    return bound > best.value + abs(best.value) * options.resolution / 4


def _spread_for_shards(found: Relaxed) -> bool:
    """Would there be fewer ranks, were it not for the shards that this mode asks for?"""
    mode = found.space.mode
    return mode is not None and 1 < mode.shards >= found.values["ranks"] - 1e-6


def throughput_bound(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> float:
    """What no plan can exceed, whatever the objective."""
    free = CompileOptions(
        pins=options.pins,
        interference=options.interference,
        max_staleness=options.max_staleness,
    )
    found = [
        relaxed.bound
        for same in spaces(program, cluster, points, free)
        for relaxed in _relaxed(same)
        if relaxed.feasible
    ]
    return max(found, default=0.0)
