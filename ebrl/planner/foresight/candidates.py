"""What a strategy chooses among: the planner's best plans under its restriction, for several
numbers of environments, of simulating processes and of pipeline stages.

The closed form of a plan knows no lockstep and no queues, so the choice among these is left to the
simulation. Invariant: no strategy has more to choose from than ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from msgspec.structs import replace

from ebrl.errors import EbrlError
from ebrl.frontend.program import Program
from ebrl.planner.compile import compile
from ebrl.planner.foresight import restrict
from ebrl.planner.foresight.strategies import Strategy
from ebrl.planner.hardware import Cluster
from ebrl.planner.layout import segments_per_batch
from ebrl.planner.model.request import CompileOptions, pinned, simulator_pin
from ebrl.planner.model.spaces import in_flight, staleness
from ebrl.planner.plan import Pin, Plan
from ebrl.planner.profile import Point
from ebrl.planner.proof.verify import nodes_of

EVEN_COUNTS = 3  # numbers of environments that divide a batch, the largest ones
Counts = list[int | None]
Maker = Callable[[CompileOptions], list[Plan]]  # plans under these options


def candidates(
    strategy: Strategy,
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
) -> Iterator[Plan]:
    """Plans to simulate, in no order; none where nothing fits."""
    eta = 0 if strategy.synchronous else options.max_staleness
    base = replace(options, max_staleness=eta, alternatives=False)
    for groups in strategy.groups:
        for count in _counts(strategy, program, base):
            for processes in _processes(program, cluster, count, base):
                wanted = replace(
                    base,
                    groups=groups,
                    pins=base.pins + _pins(program, count, processes),
                )
                yield from _plans(strategy, program, cluster, points, wanted)


def _counts(strategy: Strategy, program: Program, options: CompileOptions) -> Counts:
    """Numbers of environments: the planner's choice, as many as staleness lets be under way at
    once, and the most; or the largest that divide a batch."""
    assert program.environment is not None
    low, high = program.environment.min_count, program.environment.max_count
    if low == high or simulator_pin(program, options.pins, "environments") is not None:
        return [None]
    if strategy.counts == "free":
        under_way = int(in_flight(program, staleness(program, options), high))
        return [None, *sorted({n for n in (under_way, high) if low <= n <= high})]
    segments = segments_per_batch(program)
    even = [n for n in range(low, min(high, segments) + 1) if segments % n == 0]
    return list(reversed(even[-EVEN_COUNTS:])) or [None]


def _processes(
    program: Program, cluster: Cluster, count: int | None, options: CompileOptions
) -> Counts:
    """Simulating processes: the planner's choice, and one an environment as far as there are
    cores; on devices alone there is nothing to choose."""
    assert program.environment is not None
    cores = sum(n.count * max(0, n.cores - n.devices) for n in cluster.nodes)
    most = min(count or program.environment.max_count, cores)
    on_cores = any("cpu" in stage.runs_on for stage in program.of_kind("simulate"))
    if not on_cores or most < 2 or simulator_pin(program, options.pins, "replicas") is not None:
        return [None]
    return [None, most]


def _pins(program: Program, count: int | None, processes: int | None) -> tuple[Pin, ...]:
    stage = program.of_kind("simulate")[0].name
    found = []
    if count is not None:
        found.append(Pin(stage=stage, key="environments", value=count))
    if processes is not None:
        found.append(Pin(stage=stage, key="replicas", value=processes))
    return tuple(found)


def _plans(
    strategy: Strategy,
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
) -> Iterator[Plan]:
    if strategy.restriction not in (None, restrict.whole_devices):
        assert strategy.restriction is not None
        yield from restrict.plans(program, cluster, points, options, strategy.restriction)
        return
    # What others choose is allowed, too: on whole devices, and no staleness is within its bound.
    makers: list[Maker] = []
    if strategy.restriction is None:
        makers.append(partial(_compiled, program, cluster, points))
    for restriction in (restrict.whole_devices, restrict.rollout_apart):
        makers.append(partial(_restricted, program, cluster, points, restriction))
    for maker in makers:
        yield from _kept(strategy, program, maker, options)
    if options.groups == strategy.groups[0]:
        in_turns = replace(options, max_staleness=0, groups=None)
        for restriction in (restrict.rollout_and_learner, restrict.everything_alike):
            maker = partial(_restricted, program, cluster, points, restriction)
            yield from _kept(strategy, program, maker, in_turns)


def _kept(
    strategy: Strategy, program: Program, maker: Maker, options: CompileOptions
) -> Iterator[Plan]:
    for plan in maker(options):
        if strategy.pooled:
            yield plan
        else:
            yield from _unpooled(plan, program, maker, options)


def _restricted(
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    restriction: restrict.Restriction,
    options: CompileOptions,
) -> list[Plan]:
    return list(restrict.plans(program, cluster, points, options, restriction))


def _compiled(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> list[Plan]:
    try:
        return [compile(program, cluster, points, options=options)]
    except EbrlError:
        return []


def _unpooled(
    plan: Plan, program: Program, maker: Maker, options: CompileOptions
) -> Iterator[Plan]:
    """The plan, or others with fewer simulating processes, so that each has cores of its own."""
    over = overdrawn(plan)
    if over <= 0:
        yield plan
        return
    stage = program.of_kind("simulate")[0].name
    fewer = sum(r.device is None for r in plan.stage(stage).replicas) - over
    if fewer < 1 or pinned(options.pins, stage, "replicas") is not None:
        return
    pins = (*options.pins, Pin(stage=stage, key="replicas", value=fewer))
    yield from (again for again in maker(replace(options, pins=pins)) if overdrawn(again) <= 0)


def overdrawn(plan: Plan) -> int:
    """Cores that are lacking, over all nodes, if every process kept whole cores to itself."""
    lacking = 0
    for name, node in nodes_of(plan).items():
        kept = sum(
            max(1, -int(-r.rated_cores // 1))
            for stage in plan.stages
            for r in stage.replicas
            if r.node == name
        )
        lacking += max(0, kept - node.cores)
    return lacking
