"""How many environments: what the closed form cannot tell, asked of the simulation.

More environments fill larger batches, which is all that the closed form sees. But segments are
admitted a batch at a time, so those still being filled when admission closes leave their replicas
idle, the more of them the longer. Invariant: among the plans tried is the one that would have been
made without asking, so nothing is lost but the time.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ebrl.errors import EbrlError
from ebrl.frontend.program import Program
from ebrl.planner.compile import compile
from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.hardware import Cluster
from ebrl.planner.model.request import CompileOptions, simulator_pin
from ebrl.planner.model.spaces import in_flight, staleness
from ebrl.planner.plan import Pin, Plan
from ebrl.planner.profile import Point

PARTS = (1.0, 0.5, 0.25, 0.125)  # of the segments in a batch, times the versions of staleness
UPDATES = 24  # simulated for each


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """One number of environments: what its plan promises, and what the simulation saw."""

    environments: int
    predicted_env_steps_per_s: float
    foreseen_env_steps_per_s: float


def choose(
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
    say: Callable[[Foreseen], None] = lambda _: None,
) -> tuple[Plan, tuple[Foreseen, ...]]:
    """The plan that the simulation finds fastest, and all that were tried, fastest first.

    Where the number of environments is given there is nothing to choose, and nothing is tried.
    """
    plan = compile(program, cluster, points, options=options)
    counts = _counts(program, plan, options)
    if not counts:
        return plan, ()
    tried = [(_foresee(plan), plan)]
    say(tried[0][0])
    stage = program.of_kind("simulate")[0].name
    for count in counts:
        pins = (*options.pins, Pin(stage=stage, key="environments", value=count))
        try:
            other = compile(
                program, cluster, points, options=msgspec.structs.replace(options, pins=pins)
            )
        except EbrlError:  # so few do not reach what was asked for
            continue
        other = msgspec.structs.replace(other, pins=plan.pins)
        tried.append((_foresee(other), other))
        say(tried[-1][0])
    tried.sort(key=lambda pair: -pair[0].foreseen_env_steps_per_s)
    return tried[0][1], tuple(seen for seen, _ in tried)


def _counts(program: Program, plan: Plan, options: CompileOptions) -> list[int]:
    """Other numbers of environments than the plan's; none where it may not be chosen."""
    environment = program.environment
    if environment is None or program.training is None or options.objective != "throughput":
        return []
    eta = staleness(program, options)
    fixed = (
        environment.min_count == environment.max_count
        or simulator_pin(program, options.pins, "environments") is not None
    )
    if eta == 0 or fixed:
        return []
    under_way = in_flight(program, eta, environment.max_count)
    found = {round(under_way * part) for part in PARTS} - {plan.environments.count}
    within = (n for n in found if environment.min_count <= n <= environment.max_count)
    return sorted(within, reverse=True)


def _foresee(plan: Plan) -> Foreseen:
    training, rate = plan.program.training, plan.prediction.throughput_env_steps_per_s
    assert training is not None
    seconds = UPDATES * training.batch / rate
    outcome, _ = simulate(plan, Conditions(seconds=seconds))
    return Foreseen(
        environments=plan.environments.count,
        predicted_env_steps_per_s=rate,
        foreseen_env_steps_per_s=outcome.throughput_env_steps_per_s,
    )
