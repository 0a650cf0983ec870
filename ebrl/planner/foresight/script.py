"""A plan as a script: what every replica does in how long and shares with whom, as plain data.

The discrete-event simulation plays a plan on a virtual clock; an emulation plays this script in
real processes. Invariant: both take their times, their spread and their sharing from `seats`, so
they differ only by what they are there to compare.
"""

from __future__ import annotations

import msgspec

from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.overhead import overhead
from ebrl.planner.foresight.seats import calls_of, seats, shared
from ebrl.planner.foresight.sharing import Clock, Cores, Shared
from ebrl.planner.model.learning import reductions
from ebrl.planner.plan import Plan
from ebrl.planner.proof.verify import nodes_of

__all__ = ["Part", "Resource", "Script", "nodes_of", "script"]


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """Cores that are promised more than once (`capacity` of them), or a device used in turns."""

    turns: bool
    capacity: float


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One replica. `medians[n]` s for a call of n items; log-times spread by `sigma`.

    `place` keys its random numbers. `resource`: index into the script's, None where it shares
    nothing; `wish`: cores it wants of it, or its weight. `calls`: how many calls of the last
    median one update takes (a rank of the learner only). `together`: one call steps all its
    environments (a simulator on a device).
    """

    stage: str
    index: int
    kind: str
    medians: tuple[float, ...]
    sigma: float
    place: tuple[int, int]
    resource: int | None = None
    wish: float = 0.0
    calls: int = 1
    together: bool = False


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """All parts. An update's ranks meet `meetings` times, then reduce and publish."""

    parts: tuple[Part, ...]
    resources: tuple[Resource, ...]
    meetings: int
    reduce_s: float
    publish_s: float


def script(plan: Plan, conditions: Conditions) -> Script:
    """The script of a plan, whose profile must cover what it uses (PlanError)."""
    numbers: dict[Shared, int] = {}
    resources: list[Resource] = []
    sharing = shared(plan, Clock())
    parts = []
    ranks = 0
    for seat in seats(plan, conditions):
        demand, replica = seat.demand, seat.replica
        resource, wish = sharing.get((demand.name, replica.index), (None, 0.0))
        if resource is not None and resource not in numbers:
            numbers[resource] = len(resources)
            capacity = resource.capacity if isinstance(resource, Cores) else None
            resources.append(Resource(turns=capacity is None, capacity=capacity or 1.0))
        ranks += demand.learns
        parts.append(
            Part(
                stage=demand.name,
                index=replica.index,
                kind=demand.stage.kind,
                medians=tuple(seat.medians),
                sigma=seat.sigma,
                place=(seat.stage, replica.index),
                resource=None if resource is None else numbers[resource],
                wish=wish,
                calls=calls_of(replica) if demand.learns else 1,
                together=demand.holds and replica.device is not None,
            )
        )
    reduce_s, publish_s = overhead(plan)
    return Script(
        parts=tuple(parts),
        resources=tuple(resources),
        meetings=max(1, reductions(plan.program)) if ranks > 1 else 1,
        reduce_s=reduce_s,
        publish_s=publish_s,
    )
