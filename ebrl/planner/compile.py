"""The passes: demand → options → relax → patterns → solve → bind → verify → Plan.

Invariant: a plan leaves here only after `verify` has recomputed every constraint from it alone;
equal inputs give a byte-identical body.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from ebrl import __version__
from ebrl.frontend.program import Program
from ebrl.planner.binding import assemble
from ebrl.planner.hardware import Cluster
from ebrl.planner.model.demand import demands
from ebrl.planner.model.request import CompileOptions, check_pins
from ebrl.planner.plan import Made, Plan
from ebrl.planner.portfolio import search_all
from ebrl.planner.profile import Point
from ebrl.planner.proof.verify import verify
from ebrl.planner.telling.alternatives import consider
from ebrl.planner.telling.refusal import check_known, check_prices, explain_infeasible


def compile(
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
    points = tuple(points)
    check_pins(program, options.pins)
    check_prices(cluster, options)
    check_known(demands(program), cluster, program, points)
    best, seconds = search_all(program, cluster, points, options)
    if best is None:
        raise explain_infeasible(program, cluster, points, options)
    others = consider(program, cluster, points, options, best) if options.alternatives else ()
    plan = assemble.plan(program, cluster, points, options, best, others)
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
