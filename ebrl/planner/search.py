"""From a space to an allocation: relax, cut, solve, and say how far from the bound the answer is.

Throughput is concave in (rollout, learner capacity); tangents are added where a solution lies above
the curve until it does not. Invariant: `bound` is at least the throughput of every plan of the spaces
that were given; the allocation's own throughput is computed from its counts, never read off the model.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ebrl.planner import milp
from ebrl.planner.learning import Cut, cuts, first_cuts, throughput
from ebrl.planner.solver import Outcome, solve
from ebrl.planner.space import Space

TANGENTS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Counts, by class: devices a pattern, replicas of an option on cores; and what they give."""

    space: Space
    devices: tuple[dict[int, int], ...]  # by class: pattern → devices
    replicas: tuple[dict[int, int], ...]  # by class: option on cores → replicas
    busy: tuple[dict[int, float], ...]  # by class: option on cores → replicas' worth of time
    rollout: tuple[float, ...]  # by class
    environments: tuple[int, ...]  # by class
    learner: float
    throughput: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    allocation: Allocation
    bound: float
    status: Literal["optimal", "time limit"]
    solver: str
    seconds: float


def relax(space: Space, chosen: Sequence[Sequence[int]]) -> tuple[Outcome, list[Cut], float]:
    """The linear bound over these patterns: outcome, the tangents it needed, the scale."""
    scale = 1.0
    found = list(first_cuts(space.schedule, space.mode)) if space.mode else _no_learner()
    outcome = solve(milp.build(space, chosen, found, scale).model, relaxed=True)
    if outcome.status == "infeasible" or not outcome.values:
        return outcome, found, scale
    scale = max(outcome.objective, 1e-9) if space.objective == "throughput" else 1.0
    for _ in range(TANGENTS):
        made = milp.build(space, chosen, found, scale)
        outcome = solve(made.model, relaxed=True)
        more = _tangents(space, made, outcome)
        if not more:
            break
        found.extend(more)
    return outcome, found, scale


def integers(
    space: Space,
    chosen: Sequence[Sequence[int]],
    found: list[Cut],
    scale: float,
    *,
    time_limit_s: float,
    resolution: float,
) -> tuple[milp.Program, Outcome]:
    """The integer optimum over these patterns; tangents are added to `found`."""
    begun = time.perf_counter()
    for _ in range(TANGENTS):
        made = milp.build(space, chosen, found, scale)
        left = max(0.5, time_limit_s - (time.perf_counter() - begun))
        outcome = solve(made.model, time_limit_s=left, relative_gap=resolution / 4)
        more = _tangents(space, made, outcome, tolerance=resolution / 8)
        if not more or outcome.status == "time limit":
            break
        found.extend(more)
    return made, outcome


def allocation(space: Space, made: milp.Program, outcome: Outcome) -> Allocation:
    """Read the counts."""
    values = outcome.values
    classes = range(len(space.classes))
    rollout = tuple(values[made.rollout[k]] * made.scale for k in classes)
    learner = values[made.learner] * made.scale if made.learner >= 0 else 0.0
    return Allocation(
        space=space,
        devices=tuple(
            {
                i: round(values[c])
                for (kk, i), c in made.devices.items()
                if kk == k and values[c] > 0.5
            }
            for k in classes
        ),
        replicas=tuple(
            {
                j: round(values[c])
                for (kk, j), c in made.replicas.items()
                if kk == k and values[c] > 0.5
            }
            for k in classes
        ),
        busy=tuple(
            {j: values[c] for (kk, j), c in made.busy_cores.items() if kk == k and values[c] > 1e-9}
            for k in classes
        ),
        rollout=rollout,
        environments=tuple(round(values[made.environments[k]]) for k in classes),
        learner=learner,
        throughput=throughput(space.schedule, space.mode, sum(rollout), learner),
    )


def _tangents(
    space: Space, made: milp.Program, outcome: Outcome, tolerance: float = 1e-7
) -> tuple[Cut, ...]:
    """Cuts at the solution, if it promises more than the curve gives there."""
    if space.mode is None or not outcome.values:
        return ()
    rollout = sum(outcome.values[c] for c in made.rollout) * made.scale
    learner = outcome.values[made.learner] * made.scale
    claimed = outcome.values[made.throughput] * made.scale
    if rollout <= 0 or learner <= 0:
        return ()
    if claimed <= throughput(space.schedule, space.mode, rollout, learner) * (1 + tolerance):
        return ()
    return cuts(space.schedule, space.mode, rollout, learner)


def _no_learner() -> list[Cut]:
    return [Cut(rollout=1.0, learner=0.0, constant=0.0)]
