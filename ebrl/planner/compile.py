"""The passes: demand → options → patterns → solve → bind → verify → Plan.

Invariant: a plan leaves here only after `verify` has recomputed every constraint from it alone; equal
inputs give a byte-identical body.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from ebrl.errors import InfeasibleError
from ebrl.frontend.program import Program
from ebrl.planner import assemble, search
from ebrl.planner.bind import Binding, bind
from ebrl.planner.clock import Clock
from ebrl.planner.demand import demands, training
from ebrl.planner.hardware import Cluster
from ebrl.planner.layout import segments_per_batch
from ebrl.planner.learning import Mode, modes
from ebrl.planner.options import Scale, core_options, impossible
from ebrl.planner.plan import Made, Plan
from ebrl.planner.profile import Point
from ebrl.planner.request import CompileOptions, check_pins, pinned
from ebrl.planner.search import Found
from ebrl.planner.space import ClassSpace, Space
from ebrl.planner.verify import verify


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
    check_pins(program, options.pins)
    found, binding, seconds = _best(program, cluster, tuple(points), options)
    plan = assemble.plan(program, cluster, tuple(points), options, found, binding)
    faults = verify(plan)
    assert not faults, "\n".join(str(fault) for fault in faults)
    return _made(plan, found.solver, seconds, time.perf_counter() - begun)


def _best(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> tuple[Found, Binding, float]:
    """Over the learner's modes and, where the batch composition is fixed, the environment counts."""
    seconds = 0.0
    best: tuple[Found, Binding] | None = None
    bound = 0.0
    reasons: list[str] = []
    for space in spaces(program, cluster, points, options):
        chosen = [tuple(range(len(each.patterns))) for each in space.classes]
        relaxed, cuts, scale = search.relax(space, chosen)
        seconds += relaxed.seconds
        if not relaxed.values:
            reasons.append("no mixture fits")
            continue
        limit = relaxed.objective * scale
        if best is not None and limit <= best[1].throughput * (1 + options.resolution / 4):
            continue
        made, outcome = search.integers(
            space, chosen, cuts, scale,
            time_limit_s=options.time_limit_s, resolution=options.resolution,
        )  # fmt: skip
        seconds += outcome.seconds
        if not outcome.values:
            continue
        bound = max(bound, outcome.bound * scale)
        allocation = search.allocation(space, made, outcome)
        binding = bind(allocation)
        if best is None or binding.throughput > best[1].throughput * (1 + 1e-9):
            status = "optimal" if outcome.status == "optimal" else "time limit"
            found = Found(
                allocation=allocation,
                bound=bound,
                status=status,  # type: ignore[arg-type]
                solver=outcome.solver,
                seconds=seconds,
            )
            best = (found, binding)
    if best is None:
        raise InfeasibleError(
            "infeasible",
            f"no plan of {program.name!r} fits {cluster.text}",
            where=program.path,
            hint="give more memory, cores or environments",
        )
    found, binding = best
    return (
        Found(
            allocation=found.allocation,
            bound=max(bound, binding.throughput),
            status=found.status,
            solver=found.solver,
            seconds=seconds,
        ),
        binding,
        seconds,
    )


def spaces(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> list[Space]:
    """One space for each way to spread the learner (and, synchronously, each environment count)."""
    wanted = demands(program)
    clock = Clock(program, points)
    eta = staleness(program, options)
    learner = next((each for each in wanted if each.learns), None)
    ways: list[Mode | None] = [None]
    if learner is not None:
        ways = list(modes(program, cluster, learner.stage))
    found = []
    for low, high, groups in environment_ranges(program, options, eta):
        for mode in ways:
            scale = Scale(
                environments=(low, high),
                groups=groups,
                update=training(program).batch if learner else 1,
                shares=mode.ranks if mode else 1,
            )
            classes = []
            for node in cluster.nodes:
                on_cores = tuple(
                    option
                    for demand in wanted
                    if not (demand.learns and mode is not None and mode.hardware != "cpu")
                    for option in core_options(clock, demand, node, scale, options.pins)
                )
                classes.append(ClassSpace(node=node, on_cores=on_cores))
            for demand in wanted:
                if demand.learns and mode is not None and mode.hardware != "cpu":
                    continue
                if not any(o.stage == demand.name for c in classes for o in c.on_cores):
                    raise impossible(demand, [None], program.path)
            found.append(
                Space(
                    demands=wanted,
                    classes=tuple(classes),
                    mode=mode,
                    schedule="synchronous" if eta == 0 else "asynchronous",
                    environments=(low, high),
                    groups=groups,
                    in_flight=in_flight(program, eta, high),
                    pins=options.pins,
                    objective=options.objective,
                    at_least=options.at_least,
                )
            )
    return found


def staleness(program: Program, options: CompileOptions) -> int:
    """η: as asked, else as the graph says."""
    if options.max_staleness is not None:
        return options.max_staleness
    return training(program).max_staleness


def in_flight(program: Program, eta: int, most: int) -> float:
    """Environments that may be on their way while an update runs: η batches of segments (all, at η = 0)."""
    if program.training is None:
        return float(most)
    return float(segments_per_batch(program) * max(1, eta))


def environment_ranges(
    program: Program, options: CompileOptions, eta: int
) -> list[tuple[int, int, int]]:
    """(fewest, most, groups) to try. Synchronously each environment gives as many segments an update,
    so their number divides the segments of a batch, and a group is one worker's environments."""
    environment = program.environment
    low, high = (environment.min_count, environment.max_count) if environment else (1, 1024)
    for stage in program.of_kind("simulate"):
        if (pin := pinned(options.pins, stage.name, "environments")) is not None:
            low = high = int(pin)
    if eta > 0 or program.training is None:
        return [(low, high, 2 if high > 1 else 1)]
    segments = segments_per_batch(program)
    divisors = [n for n in range(low, min(high, segments) + 1) if segments % n == 0]
    if not divisors:
        near = [n for n in range(1, segments + 1) if segments % n == 0]
        raise InfeasibleError(
            "environments-not-a-divisor",
            f"with max_staleness=0 every environment gives the same number of segments to an update of "
            f"{segments} ({program.training.batch} steps ÷ horizon {program.training.horizon}); none of "
            f"{low}–{high} environments divides {segments}",
            where=program.path,
            hint=f"use one of {', '.join(map(str, near[-8:]))} environments, or max_staleness=1",
        )
    return [(n, n, 1) for n in divisors[-4:]]


def _made(plan: Plan, solver: str, seconds: float, total: float) -> Plan:
    import msgspec

    from ebrl import __version__

    made = Made(
        version=__version__,
        solver=solver,
        solve_s=seconds,
        total_s=total,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return msgspec.structs.replace(plan, made=made)
