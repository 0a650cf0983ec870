"""The spaces of a compilation: one for each way to spread the learner and, where every
environment has to give an update the same number of segments, for each number of environments.

Invariant: together they hold every plan that is considered; each is linear, so each can be
bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebrl.errors import InfeasibleError
from ebrl.frontend.program import Program
from ebrl.planner.hardware import Cluster, NodeClass
from ebrl.planner.layout import segments_per_batch
from ebrl.planner.model.clock import Clock
from ebrl.planner.model.demand import Demand, demands, training
from ebrl.planner.model.interference import Slowdowns
from ebrl.planner.model.learning import Mode, modes
from ebrl.planner.model.options import Option, Scale, core_options, device_options
from ebrl.planner.model.request import CompileOptions, pinned
from ebrl.planner.model.space import ClassSpace, Space
from ebrl.planner.profile import Point

COUNTS = 4  # environment counts to try, synchronously


def spaces(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> Iterator[tuple[Space, ...]]:
    """Spaces to choose from. Within one tuple, the next is of use only where the one before is
    infeasible, or would spread the learner wider than its work asks for just to shard its state."""
    wanted = demands(program)
    clock = Clock(program, points)
    eta = staleness(program, options)
    learner = next((each for each in wanted if each.learns), None)
    for low, high, groups in environment_ranges(program, options, eta):
        ways: dict[object, list[Mode | None]] = {None: [None]}
        if learner is not None:
            ways = {}
            for way in modes(program, cluster, learner.stage):
                ways.setdefault((way.hardware, way.span), []).append(way)
        for same in ways.values():
            found = []
            for mode in same:
                scale = Scale(
                    environments=(low, high),
                    groups=groups,
                    update=training(program).batch if learner else 1,
                    ranks=mode.ranks if mode else 1,
                    shards=mode.shards if mode else 1,
                    whole_learner=eta == 0,
                )
                found.append(
                    Space(
                        demands=wanted,
                        classes=tuple(
                            _class(clock, wanted, node, scale, mode, options)
                            for node in cluster.nodes
                        ),
                        mode=mode,
                        schedule="synchronous" if eta == 0 else "asynchronous",
                        environments=(low, high),
                        groups=groups,
                        in_flight=in_flight(program, eta, high),
                        pins=options.pins,
                        objective=options.objective,
                        at_least=options.at_least,
                        slowdowns=Slowdowns(known=options.interference),
                    )
                )
            yield tuple(found)


def _class(
    clock: Clock,
    wanted: Sequence[Demand],
    node: NodeClass,
    scale: Scale,
    mode: Mode | None,
    options: CompileOptions,
) -> ClassSpace:
    on_cores: list[Option] = []
    on_device: list[Option] = []
    for demand in wanted:
        if not demand.learns or mode is None or mode.hardware == "cpu":
            on_cores += core_options(clock, demand, node, scale, options.pins)
        if not demand.learns or mode is None or mode.hardware == "gpu":
            on_device += device_options(clock, demand, node, scale, options.pins)
    return ClassSpace(node=node, on_cores=tuple(on_cores), on_device=tuple(on_device))


def staleness(program: Program, options: CompileOptions) -> int:
    """η: as asked, else as the graph says."""
    if options.max_staleness is not None:
        return options.max_staleness
    return training(program).max_staleness


def in_flight(program: Program, eta: int, most: int) -> float:
    """Environments that may be on their way: while an update runs, η batches of segments (AReaL's
    bound leaves η + 1, one of which is being trained on); synchronously, one batch."""
    if program.training is None or program.environment is None:
        return float(most)
    return float(segments_per_batch(program) * max(1, eta))


def environment_ranges(
    program: Program, options: CompileOptions, eta: int
) -> list[tuple[int, int, int]]:
    """(fewest, most, groups) to try.

    Asynchronously two groups, so that one is simulated while the other is answered. Synchronously
    each environment gives as many segments to an update, so their number divides the batch's.
    """
    environment = program.environment
    low, high = (environment.min_count, environment.max_count) if environment else (1, 1024)
    for stage in program.of_kind("simulate"):
        if (pin := pinned(options.pins, stage.name, "environments")) is not None:
            low = high = int(pin)
    if eta > 0 or program.training is None or environment is None:
        return [(low, high, options.groups or (2 if high > 1 else 1))]
    segments = segments_per_batch(program)
    divisors = [n for n in range(low, min(high, segments) + 1) if segments % n == 0]
    if not divisors:
        near = [n for n in range(1, segments + 1) if segments % n == 0]
        raise InfeasibleError(
            "environments-not-a-divisor",
            "with max_staleness=0 every environment gives an update the same number of segments; "
            f"an update has {segments} ({program.training.batch} steps ÷ horizon "
            f"{program.training.horizon}), and none of {low}–{high} environments divides that",
            where=program.path,
            hint=f"use one of {', '.join(map(str, near[-8:]))} environments, or max_staleness=1",
        )
    return [(n, n, min(n, options.groups or 1)) for n in reversed(divisors[-COUNTS:])]
