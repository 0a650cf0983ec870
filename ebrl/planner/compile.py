"""The passes: demand → options → relax → patterns → solve → bind → verify → Plan.

Invariant: a plan leaves here only after `verify` has recomputed every constraint from it alone;
equal inputs give a byte-identical body.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from ebrl import __version__
from ebrl.frontend.program import Program
from ebrl.planner import assemble, search
from ebrl.planner.bind import Result, bind
from ebrl.planner.demand import demands
from ebrl.planner.hardware import Cluster
from ebrl.planner.plan import Made, Plan
from ebrl.planner.profile import Point
from ebrl.planner.refusal import check_known, infeasible
from ebrl.planner.request import CompileOptions, check_pins
from ebrl.planner.search import Relaxed
from ebrl.planner.space import Space
from ebrl.planner.spaces import spaces
from ebrl.planner.verify import verify


def compile(  # noqa: A001 (the field's word)
    program: Program,
    cluster: Cluster,
    points: Sequence[Point],
    *,
    options: CompileOptions | None = None,
) -> Plan:
    """The best plan for this graph on this hardware by these stage times.

    Raises PlanError where an input is wrong, InfeasibleError where no plan fits, with the reason.
    """
    begun = time.perf_counter()
    options = options or CompileOptions()
    check_pins(program, options.pins)
    check_known(demands(program), cluster, program, tuple(points))
    best, seconds = _best(program, cluster, tuple(points), options)
    plan = assemble.plan(program, cluster, tuple(points), options, best)
    faults = verify(plan)
    assert not faults, "\n".join(str(fault) for fault in faults)
    made = Made(
        version=__version__,
        solver=best.found.solver,
        solve_s=seconds,
        total_s=time.perf_counter() - begun,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return msgspec.structs.replace(plan, made=made)


def _best(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> tuple[Result, float]:
    """Spaces in the order of what their learners could do at most. Each is relaxed, and solved in
    integers only where its bound is better than what is there; `bound` covers them all."""
    seconds = 0.0
    best: Result | None = None
    bound = -math.inf
    groups = sorted(
        spaces(program, cluster, points, options),
        key=lambda same: -max(map(search.quick_bound, same)),
    )
    for same in groups:
        limit = max(map(search.quick_bound, same))
        if best is not None and limit <= best.value * (1 + options.resolution / 4):
            bound = max(bound, limit)
            break
        for relaxed in sorted(_relaxed(same), key=lambda each: -each.bound):
            seconds += relaxed.seconds
            if not relaxed.feasible:
                continue
            if best is not None and not _better(relaxed.bound, best, options):
                bound = max(bound, relaxed.bound)
                continue
            answer = search.best(
                relaxed, time_limit_s=options.time_limit_s, resolution=options.resolution
            )
            seconds += answer.seconds
            bound = max(bound, answer.bound)
            if answer.allocation is not None:
                binding = bind(
                    answer.allocation, bound=answer.bound, resolution=options.resolution
                )
                result = Result(found=answer, binding=binding, bound=answer.bound)
                best = result if best is None or result.value > best.value else best
    if best is None:
        raise infeasible(program, cluster, points, options)
    return replace(best, bound=max(bound, best.value)), seconds


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
