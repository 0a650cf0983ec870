"""What every replica of a plan does in how long, and what it shares with whom, from the plan alone.

Times are the profile's, at the replica's own quota and cores, slowed down by the factor that the
plan records for the stages that meet on its device. Invariant: replicas share cores only where
their cores are promised more than once, and a device only where they take turns on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec
import numpy as np

from ebrl.errors import PlanError
from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.draws import sigma
from ebrl.planner.foresight.sharing import Clock, Cores, Shared, Turns
from ebrl.planner.hardware import DeviceKind, NodeClass
from ebrl.planner.model import clock as stage_clock
from ebrl.planner.model.demand import Demand, demands
from ebrl.planner.plan import Plan, Replica
from ebrl.planner.proof.verify import nodes_of

EVEN = 1e-9
LEAST_SHARE = 1e-3  # weight of a stage that the plan has next to nothing to do for


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """A replica with its times. `medians[n]` is of a call of n, its neighbours' slowdown included;
    `slowdown` is that factor; `sigma` the spread of its time at the planned batch."""

    demand: Demand
    stage: int
    replica: Replica
    medians: list[float]
    sigma: float
    slowdown: float


def seats(plan: Plan, conditions: Conditions) -> list[Seat]:
    """Every replica of every stage, in the order of the plan."""
    nodes = nodes_of(plan)
    times = stage_clock.Clock(plan.program, plan.profile)
    slow = slowdowns(plan, nodes)
    tables: dict[object, tuple[list[float], float]] = {}
    found = []
    for stage, demand in enumerate(demands(plan.program)):
        for replica in plan.stage(demand.name).replicas:
            device = None if replica.device is None else nodes[replica.node].device
            factor = slow.get((demand.name, replica.index), 1.0)
            factor *= conditions.slow.get(f"{replica.node}/{replica.device}", 1.0)
            key = (
                stage, None if device is None else device.name, replica.sms,
                replica.rated_cores, replica.batch, replica.share, factor,
            )  # fmt: skip
            if key not in tables:
                tables[key] = _table(times, demand, replica, device, factor, conditions)
            medians, spread = tables[key]
            found.append(
                Seat(
                    demand=demand,
                    stage=stage,
                    replica=replica,
                    medians=medians,
                    sigma=spread,
                    slowdown=factor,
                )
            )
    return found


def _table(
    times: stage_clock.Clock,
    demand: Demand,
    replica: Replica,
    device: DeviceKind | None,
    factor: float,
    conditions: Conditions,
) -> tuple[list[float], float]:
    """Medians by size of a call, and the spread at the planned one. A rank of the learner makes
    calls of one size only: its share in as many equal calls as its batch asks for."""
    if replica.rated_cores <= 0 or replica.batch < 1:
        raise PlanError(
            "plan-malformed",
            f"a replica with {replica.rated_cores:g} cores and a batch of {replica.batch} does "
            "nothing",
            where=f"stages.{demand.name}.replicas[{replica.index}]",
            hint="the plan was edited or made by hand; plan again",
        )
    alone = demand.holds and device is None
    if demand.learns and replica.share:
        sizes = np.array([max(1.0, replica.share / calls_of(replica))])
    else:
        sizes = np.arange(1, 2 if alone else replica.batch + 1, dtype=float)
    time = times.of(demand.stage, device)
    estimate = (
        None if time is None else stage_clock.ask(time, replica.sms, replica.rated_cores, sizes)
    )
    if estimate is None:
        raise PlanError(
            "profile-missing",
            f"the plan's profile has no time for {demand.name} in batches up to {replica.batch}",
            where=f"stages.{demand.name}.replicas[{replica.index}]",
            hint="plan again with a profile that covers it",
        )
    medians = np.broadcast_to(estimate.median_s, sizes.shape)
    tail = np.broadcast_to(estimate.p95_s, sizes.shape)
    spread = sigma(float(medians[-1]), float(tail[-1]), conditions)
    return [0.0, *(medians * factor).tolist()], spread


def calls_of(replica: Replica) -> int:
    """Equal calls, no larger than its batch, that make up a rank's share of an update."""
    return max(1, -(-replica.share // replica.batch))


def apart(plan: Plan, demand: Demand) -> bool:
    """Does it work in a phase of its own (a synchronous learner)?"""
    return plan.schedule == "synchronous" and demand.learns


def slowdowns(plan: Plan, nodes: Mapping[str, NodeClass]) -> dict[tuple[str, int], float]:
    """(stage, replica) → how much slower it is for who else works on its device."""
    found: dict[tuple[str, int], float] = {}
    for mates in devices(plan).values():
        names = frozenset(demand.name for demand, _ in mates)
        if len(names) < 2:
            continue
        turns = in_turns(mates, nodes)
        factor = next(
            (
                each.factor
                for each in plan.interference
                if frozenset(each.stages) == names and each.turns is turns
            ),
            1.0,
        )
        for demand, replica in mates:
            found[demand.name, replica.index] = factor
    return found


Mates = list[tuple[Demand, Replica]]


def devices(plan: Plan) -> dict[tuple[str, int], Mates]:
    """Who works on each device at the same time."""
    found: dict[tuple[str, int], Mates] = defaultdict(list)
    for demand in demands(plan.program):
        if apart(plan, demand):
            continue
        for replica in plan.stage(demand.name).replicas:
            if replica.device is not None:
                found[replica.node, replica.device].append((demand, replica))
    return found


def in_turns(mates: Mates, nodes: Mapping[str, NodeClass]) -> bool:
    device = nodes[mates[0][1].node].device
    return device is not None and sum(replica.sms for _, replica in mates) > device.sms


def shared(plan: Plan, clock: Clock) -> dict[tuple[str, int], tuple[Shared, float]]:
    """(stage, replica) → what it shares, and what it wishes of that: cores, or its weight."""
    nodes = nodes_of(plan)
    sets: dict[tuple[str, tuple[int, ...]], list[tuple[Demand, Replica]]] = defaultdict(list)
    for demand in demands(plan.program):
        if not apart(plan, demand):
            for replica in plan.stage(demand.name).replicas:
                sets[replica.node, replica.core_set].append((demand, replica))
    turning = {place: mates for place, mates in devices(plan).items() if in_turns(mates, nodes)}
    crowded: dict[tuple[str, tuple[int, ...]], Cores] = {}
    found: dict[tuple[str, int], tuple[Shared, float]] = {}
    for place, mates in sets.items():
        if sum(replica.rated_cores for _, replica in mates) <= len(place[1]) + EVEN:
            continue
        crowded[place] = Cores(clock, len(place[1]))
        for demand, replica in mates:
            found[demand.name, replica.index] = (crowded[place], replica.rated_cores)
    for mates in turning.values():
        first = mates[0][1]
        host = max(replica.rated_cores for _, replica in mates)
        device = Turns(clock, crowded.get((first.node, first.core_set)), host)
        for demand, replica in mates:
            found[demand.name, replica.index] = (device, max(replica.busy, LEAST_SHARE))
    return found
