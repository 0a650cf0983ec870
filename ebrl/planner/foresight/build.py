"""A plan becomes a world that can be set going.

Invariant: everything here follows from the plan, the conditions and the discipline; nothing is
assumed of a stage but its rate, its place in the loop and its times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ebrl.errors import PlanError
from ebrl.planner.foresight.beyond_loop import Onward, Service
from ebrl.planner.foresight.conditions import Conditions, Discipline
from ebrl.planner.foresight.draws import Draws, Lengths
from ebrl.planner.foresight.learner import Learner, Rank
from ebrl.planner.foresight.loop import (
    FLUSH_S,
    Gate,
    GatedPolicy,
    Policy,
    Replica,
    Simulator,
)
from ebrl.planner.foresight.overhead import overhead
from ebrl.planner.foresight.seats import Seat, calls_of, seats, shared
from ebrl.planner.foresight.segments import Admission, Rounds
from ebrl.planner.foresight.sharing import Clock, Shared
from ebrl.planner.foresight.world import Link, World
from ebrl.planner.layout import segments_per_batch
from ebrl.planner.model.demand import Demand, demands
from ebrl.planner.model.learning import HOST_BYTES_PER_S, published_bytes, reductions
from ebrl.planner.plan import Plan
from ebrl.planner.proof.verify import nodes_of

Given = dict[tuple[str, int], tuple[Shared, float]]


def build(plan: Plan, conditions: Conditions, discipline: Discipline) -> World:
    """The world at its first moment. Raises PlanError where there is nothing to simulate."""
    program = plan.program
    count = plan.environments.count
    order = loop_order(demands(program))
    if program.training is None or program.environment is None or not order or not count:
        raise PlanError(
            "nothing-to-simulate",
            "the plan has no environments, or no learner",
            where=program.path,
            hint="a pipeline needs a simulator, a policy and a learner to be simulated",
        )
    clock = Clock()
    per_batch = segments_per_batch(program)
    eta = plan.max_staleness if conditions.admission else None
    limit = program.environment.max_episode_steps
    admission = Rounds(per_batch, eta, count) if discipline.rounds else Admission(per_batch, eta)
    holder = next(s for s, demand in enumerate(demands(program)) if demand.holds)
    world = World(
        clock,
        admission,
        environments=count,
        horizon=program.training.horizon,
        chunk=program.environment.action.chunk,
        lengths=[
            Lengths(conditions.seed, (len(program.stages) + holder, env), limit, conditions)
            for env in range(count)
        ],
    )
    sharing = shared(plan, clock)
    everyone = seats(plan, conditions)
    _loop(plan, world, conditions, discipline, order, everyone, sharing)
    _services(plan, world, conditions, everyone, sharing)
    world.learner = _learner(plan, world, conditions, discipline, everyone, sharing)
    if conditions.transport:
        world.links = _links(plan)
    return world


def loop_order(wanted: Sequence[Demand]) -> list[Demand]:
    """The stages that an environment visits after its simulator, then the simulator."""
    loop = [demand for demand in wanted if demand.loop]
    return [d for d in loop if not d.holds] + [d for d in loop if d.holds]


def _draws(seat: Seat, conditions: Conditions) -> Draws:
    return Draws(conditions.seed, (seat.stage, seat.replica.index), seat.sigma, conditions)


def _loop(
    plan: Plan,
    world: World,
    conditions: Conditions,
    discipline: Discipline,
    order: Sequence[Demand],
    everyone: Sequence[Seat],
    sharing: Given,
) -> None:
    gated = discipline.together != "environment"
    readers = {e.target.split(".")[0] for e in plan.program.edges if e.keep == "latest"}
    reads_s = published_bytes(plan.program) / HOST_BYTES_PER_S if conditions.transport else 0.0
    stations: list[list[Replica]] = [[] for _ in order]  # by position, by environment
    for position, demand in enumerate(order):
        for seat in (each for each in everyone if each.demand.name == demand.name):
            replica = _member(
                world, seat, conditions, sharing,
                reads_s=reads_s if demand.name in readers else None,
                gate=None if position or not gated else discipline.merge,
            )  # fmt: skip
            world.replicas.append(replica)
            first, last = seat.replica.environments or (0, 0)
            stations[position].extend([replica] * (last - first))
    *policies, homes = stations
    if not policies or {len(station) for station in stations} != {plan.environments.count}:
        raise PlanError(
            "plan-environments",
            "the replicas of the loop do not cover each environment once",
            where="stages",
            hint="the plan was edited; plan again",
        )
    world.first = policies[0]  # type: ignore[assignment]
    world.home = homes  # type: ignore[assignment]
    for here, there in zip(policies, [*policies[1:], homes], strict=True):
        for env, (policy, following) in enumerate(zip(here, there, strict=True)):
            assert isinstance(policy, Policy)
            policy.following[env] = following
    groups = max(1, plan.environments.groups)
    for simulator in dict.fromkeys(world.home):
        mine = [env for env, home in enumerate(world.home) if home is simulator]
        simulator.group = math.ceil(len(mine) / groups)
        simulator.rings = tuple(dict.fromkeys(world.first[env] for env in mine))
    if gated:
        world.gates = _gates(world, discipline, groups)


def _member(
    world: World,
    seat: Seat,
    conditions: Conditions,
    sharing: Given,
    *,
    reads_s: float | None,
    gate: bool | None,
) -> Replica:
    """One replica of the loop."""
    demand, replica = seat.demand, seat.replica
    resource, wish = sharing.get((demand.name, replica.index), (None, 0.0))
    times, batch = seat.medians, replica.batch
    on_cores = demand.holds and replica.device is None
    calls = demand.items * world.chunk  # for one decision
    if on_cores:
        decision = times[1] * calls
        batch = max(1, math.ceil(FLUSH_S / decision)) if decision > 0 else 1
    given: dict[str, Any] = {
        "batch": batch,
        "times": times,
        "calls": calls,
        "draws": _draws(seat, conditions),
        "shared": resource,
        "wish": wish,
    }
    place: Any = (world, seat.stage, replica.index, replica.node)
    if demand.holds:
        return Simulator(*place, on_cores=on_cores, **given)
    if gate is None:
        return Policy(*place, reads_s=reads_s, **given)
    return GatedPolicy(*place, merge=gate, reads_s=reads_s, **given)


def _gates(world: World, discipline: Discipline, groups: int) -> list[Gate]:
    """By environment: sets of one simulator's environments, or of all that one policy serves."""
    members: dict[tuple[object, ...], list[int]] = {}
    for env, (policy, home) in enumerate(zip(world.first, world.home, strict=True)):
        key = (policy, home) if discipline.together == "worker" else (policy,)
        members.setdefault(key, []).append(env)
    found: list[Gate | None] = [None] * len(world.home)
    for envs in members.values():
        policy = world.first[envs[0]]
        assert isinstance(policy, GatedPolicy)
        size = math.ceil(len(envs) / groups)
        if discipline.together == "worker" and not discipline.merge:
            size = min(size, policy.batch)  # as the runtime cuts its groups
        for begin in range(0, len(envs), size):
            some = envs[begin : begin + size]
            gate = Gate(policy, len(some))
            for env in some:
                found[env] = gate
    return [gate for gate in found if gate is not None]


def _services(
    plan: Plan, world: World, conditions: Conditions, everyone: Sequence[Seat], sharing: Given
) -> None:
    """Stages that are neither in the loop nor learn, in the order of declaration."""
    onward: Onward = world.send
    for demand in reversed(demands(plan.program)):
        if demand.loop or demand.learns:
            continue
        service = Service(demand.items, onward)
        onward = service.put
        world.services.insert(0, service)
        for seat in (each for each in everyone if each.demand.name == demand.name):
            resource, wish = sharing.get((demand.name, seat.replica.index), (None, 0.0))
            service.add(
                world,
                seat.stage,
                seat.replica.index,
                seat.replica.node,
                batch=seat.replica.batch,
                times=seat.medians,
                draws=_draws(seat, conditions),
                shared=resource,
                wish=wish,
            )


def _learner(
    plan: Plan,
    world: World,
    conditions: Conditions,
    discipline: Discipline,
    everyone: Sequence[Seat],
    sharing: Given,
) -> Learner:
    ranks = []
    for seat in (each for each in everyone if each.demand.learns):
        name, replica = seat.demand.name, seat.replica
        resource, wish = sharing.get((name, replica.index), (None, 0.0))
        ranks.append(
            Rank(
                replica.index,
                replica.node,
                calls=calls_of(replica) if replica.share else 0,
                call_s=seat.medians[1],
                draws=_draws(seat, conditions),
                shared=resource,
                wish=wish,
            )
        )
    reduce_s, publish_s = overhead(plan) if conditions.transport else (0.0, 0.0)
    return Learner(
        world,
        ranks,
        meetings=max(1, reductions(plan.program)) if len(ranks) > 1 else 1,
        reduce_s=reduce_s,
        publish_s=publish_s,
        fresh=plan.max_staleness if conditions.admission else None,
        patient=not discipline.rounds,
    )


def _links(plan: Plan) -> dict[str, Link]:
    """By node: how long the part of a segment takes that goes to ranks on other nodes."""
    nodes = nodes_of(plan)
    learning = [r for stage in plan.of_kind("train") for r in stage.replicas]
    whole = sum(max(1, replica.share) for replica in learning)
    found = {}
    for name, node in nodes.items():
        here = sum(max(1, r.share) for r in learning if r.node == name) / whole
        if here < 1.0:
            away = plan.buffers.segment_bytes * (1.0 - here)
            found[name] = Link(away / node.network_bytes_per_s)
    return found
