"""What a search answers: counts, and how they were read off a solution.

Invariant: an allocation's throughput is computed from its rates, never read off the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from ebrl.planner.model import milp, pricing
from ebrl.planner.model.learning import Cut, throughput
from ebrl.planner.model.milp import Built
from ebrl.planner.model.solver import Outcome, Status
from ebrl.planner.model.space import Pattern, Space
from ebrl.planner.model.worths import Worths


class Relaxed(msgspec.Struct, frozen=True, kw_only=True):
    """The linear bound of a space. `space` holds the patterns that entered."""

    space: Space
    feasible: bool
    bound: float
    cuts: tuple[Cut, ...]
    scale: float
    prices: Mapping[milp.Row, float]
    seconds: float
    values: Mapping[str, float]
    worths: tuple[Worths, ...] = ()  # by class; none where the patterns are given


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, by class: devices a pattern, replicas of an option on cores; and what they give."""

    space: Space
    promising: tuple[tuple[Pattern, ...], ...]  # by class: patterns, best first
    devices: tuple[Mapping[Pattern, int], ...]
    replicas: tuple[Mapping[int, int], ...]
    busy: tuple[Mapping[int, float], ...]  # option on cores → replicas' worth of time
    learning: tuple[Mapping[Pattern, float], ...]  # learner's items a second on one such device
    rollout: tuple[float, ...]
    environments: tuple[int, ...]
    learner: float
    throughput: float


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """`objective` and `bound` are in the terms of the space's objective."""

    allocation: Allocation | None
    bound: float
    status: Status
    solver: str
    seconds: float


def allocation(made: Built, outcome: Outcome, relaxed: Relaxed) -> Allocation:
    """Read the counts."""
    space, values = made.space, outcome.values
    classes = range(len(space.classes))
    rollout = tuple(values[made.rollout[k]] * made.scale for k in classes)
    learner = values[made.learner] * made.scale if made.learner >= 0 else 0.0

    return Allocation(
        space=space,
        promising=tuple(
            tuple(pricing.ranked(space, k, relaxed.worths[k], relaxed.prices))
            if relaxed.worths and space.classes[k].on_device
            else space.classes[k].patterns
            for k in classes
        ),
        devices=tuple(
            {
                p: round(values[c])
                for (kk, p), c in made.devices.items()
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
        learning=tuple(_learning(made, outcome, k) for k in classes),
        rollout=rollout,
        environments=tuple(round(values[made.environments[k]]) for k in classes),
        learner=learner,
        throughput=throughput(space.schedule, space.mode, sum(rollout), learner),
    )


def _learning(made: Built, outcome: Outcome, k: int) -> dict[Pattern, float]:
    """What the learner does on one device of each pattern: equal on equal devices."""
    space, values = made.space, outcome.values
    found: dict[Pattern, float] = {}
    for (kk, pattern), column in made.devices.items():
        if kk != k or values[column] < 0.5:
            continue
        for o in pattern.members:
            option = space.classes[k].on_device[o]
            if space.demand(option.stage).learns:
                found[pattern] = option.rate * busy_of(made, values, k, pattern, o)
    return found


def busy_of(made: Built, values: tuple[float, ...], k: int, pattern: Pattern, o: int) -> float:
    """How busy an option is on one device of a pattern: equal on equal devices."""
    if (k, pattern, o) in made.busy_turns:
        return values[made.busy_turns[k, pattern, o]] / values[made.devices[k, pattern]]
    column = made.busy_device[k, o]
    row = made.model.rows[made.rows["busy", k, o]]
    supply = {c: -t for c, t in row.items() if c != column}
    everything = math.fsum(t * values[c] for c, t in supply.items())
    return values[column] * supply[made.devices[k, pattern]] / everything
