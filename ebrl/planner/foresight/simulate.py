"""A plan, simulated: discrete events from the first step on, then what they come to.

Invariant: equal plan, conditions and discipline give equal outcomes and equal traces.
"""

from __future__ import annotations

import gc
import heapq
import time
from collections import defaultdict

import msgspec

from ebrl.errors import PlanError
from ebrl.planner.foresight.build import build
from ebrl.planner.foresight.conditions import Conditions, Discipline, of_schedule
from ebrl.planner.foresight.outcome import Outcome, StageOutcome, throughput
from ebrl.planner.foresight.tape import Tape
from ebrl.planner.foresight.world import World
from ebrl.planner.model.demand import demands
from ebrl.planner.plan import Plan, Replica, StagePlan
from ebrl.trace import Trace

UPDATES = 60  # to simulate where no length is given
SHORTEST_S = 60.0
MOST_EVENTS = 3_000_000  # about; where no length is given
WARM_UP = 0.2  # of the updates, at least two


class Seen(msgspec.Struct):
    """What is counted from some moment on."""

    at: float
    produced: int
    trained: int
    discarded: int
    parked_s: float
    ready_s: float
    learner: tuple[float, float, float]
    busy: list[float]
    waited: list[float]
    calls: list[int]
    items: list[int]
    ranks: list[float]
    staleness: dict[int, int]


def simulate(
    plan: Plan,
    conditions: Conditions | None = None,
    *,
    discipline: Discipline | None = None,
    trace: bool = False,
) -> tuple[Outcome, Trace | None]:
    """Run the plan. Raises PlanError where there is nothing to run."""
    conditions = conditions or Conditions()
    discipline = discipline or of_schedule(plan.schedule)
    began = time.perf_counter()
    seconds = conditions.seconds if conditions.seconds is not None else length(plan)
    if not seconds > 0:
        raise PlanError("nothing-to-simulate", "no time to simulate", where="--seconds")
    world = build(plan, conditions, discipline)
    names = [demand.name for demand in demands(plan.program)]
    learns = next(demand.name for demand in demands(plan.program) if demand.learns)
    if trace:
        world.tape = Tape(names, learns)
    collecting = gc.isenabled()
    gc.disable()  # nothing here is cyclic and short-lived, and there is much of it
    try:
        warm, begun = _run(plan, world, seconds)
    finally:
        if collecting:
            gc.enable()
    outcome = _outcome(plan, world, conditions, warm, begun)
    outcome = msgspec.structs.replace(outcome, wall_s=time.perf_counter() - began)
    return outcome, world.tape.trace if world.tape is not None else None


def length(plan: Plan) -> float:
    """Seconds that some sixty updates take, at least a minute, less where events are many."""
    training, rate = plan.program.training, plan.prediction.throughput_env_steps_per_s
    if training is None or not rate > 0:
        return SHORTEST_S
    wanted = max(SHORTEST_S, UPDATES * training.batch / rate)
    environment = plan.program.environment
    chunk = environment.action.chunk if environment is not None else 1
    return min(wanted, max(10 * training.batch / rate, MOST_EVENTS * chunk / (2 * rate)))


def _run(plan: Plan, world: World, seconds: float) -> tuple[int, Seen]:
    """Let events happen till then; the number of the update that ended the warm-up (−1: none), and
    what was counted at that moment."""
    learner, heap, clock = world.learner, world.clock.heap, world.clock
    assert learner is not None
    training, rate = plan.program.training, plan.prediction.throughput_env_steps_per_s
    assert training is not None
    expected = seconds * rate / training.batch
    goal = max(2, round(WARM_UP * expected), plan.max_staleness + 1)
    seen = {-1: _look(world)}
    world.begin()
    pop = heapq.heappop
    marks = sorted({1, min(goal, max(1, int(expected // 2)))})
    updates = learner.updates
    while heap:
        when, _, happens = pop(heap)
        if when > seconds:
            break
        clock.now = when
        happens(when)
        if marks and len(updates) >= marks[0]:
            seen[marks.pop(0) - 1] = _look(world)
    clock.now = seconds
    usable = [number for number in seen if number >= 0 and len(updates) - number >= 3]
    warm = max(usable, default=max(seen) if len(seen) > 1 and len(updates) > 1 else -1)
    return warm, seen[warm]


def _look(world: World) -> Seen:
    learner = world.learner
    assert learner is not None
    return Seen(
        at=world.clock.now,
        produced=world.produced,
        trained=learner.trained,
        discarded=learner.discarded,
        parked_s=world.parked_s_until(world.clock.now),
        ready_s=world.ready.waited_until(world.clock.now),
        learner=learner.times_until(world.clock.now),
        busy=[replica.busy_until(world.clock.now) for replica in world.replicas],
        waited=[replica.waited_until(world.clock.now) for replica in world.replicas],
        calls=[replica.calls_made for replica in world.replicas],
        items=[replica.items for replica in world.replicas],
        ranks=learner.busy_until(world.clock.now),
        staleness=dict(learner.staleness),
    )


def _outcome(plan: Plan, world: World, conditions: Conditions, warm: int, begun: Seen) -> Outcome:
    learner = world.learner
    assert learner is not None
    now = _look(world)
    span = max(now.at - begun.at, 1e-12)
    rate, confidence = throughput(learner.updates, max(warm, 0))
    predicted = plan.prediction.throughput_env_steps_per_s
    stale = {
        behind: steps - begun.staleness.get(behind, 0)
        for behind, steps in sorted(now.staleness.items())
    }
    trained = sum(stale.values())
    computing, overhead, waiting = (
        (b - a) / span for a, b in zip(begun.learner, now.learner, strict=True)
    )
    ready = (now.ready_s - begun.ready_s) / span
    return Outcome(
        throughput_env_steps_per_s=rate,
        confidence_env_steps_per_s=confidence,
        predicted_env_steps_per_s=predicted,
        error_vs_plan=rate / predicted - 1 if predicted > 0 else 0.0,
        rollout_env_steps_per_s=(now.produced - begun.produced) / span,
        seconds=now.at,
        warm_up_s=begun.at,
        first_update_s=learner.updates[0][0] if learner.updates else None,
        updates=len(learner.updates),
        produced=now.produced,
        trained=now.trained,
        discarded=now.discarded,
        in_flight=now.produced - now.trained - now.discarded,
        stages=_stages(plan, world, begun, now, ready),
        staleness_mean=sum(b * s for b, s in stale.items()) / max(trained, 1),
        staleness_max=max((b for b, s in stale.items() if s), default=0),
        staleness={str(b): s / max(trained, 1) for b, s in stale.items() if s},
        parked=(now.parked_s - begun.parked_s) / span,
        ready=ready,
        learner={"computing": computing, "reduce_publish": overhead, "waiting": waiting},
        seed=conditions.seed,
        events=world.clock.count,
    )


def _stages(
    plan: Plan, world: World, begun: Seen, now: Seen, ready: float
) -> tuple[StageOutcome, ...]:
    """Means over the replicas of each stage, from the warm-up on."""
    span = max(now.at - begun.at, 1e-12)
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0] * 5)
    for number, replica in enumerate(world.replicas):
        row = sums[replica.stage]
        row[0] += 1
        row[1] += (now.busy[number] - begun.busy[number]) / span
        row[2] += now.calls[number] - begun.calls[number]
        row[3] += now.items[number] - begun.items[number]
        row[4] += (now.waited[number] - begun.waited[number]) / span
    found = []
    for number, demand in enumerate(demands(plan.program)):
        planned = plan.stage(demand.name)
        works = _works(world, planned, number, demand.learns, begun, now)
        mean = sum(each.busy for each in planned.replicas) / len(planned.replicas)
        if demand.learns:
            work = sum(b - a for a, b in zip(begun.ranks, now.ranks, strict=True)) / span
            updates = sum(1 for at, _ in world.updates if at > begun.at)
            row = [float(len(now.ranks)), work, updates, updates * planned.batch, ready]
        else:
            row = sums[number]
        found.append(
            StageOutcome(
                name=demand.name,
                kind=planned.kind,
                replicas=len(planned.replicas),
                busy=row[1] / max(row[0], 1),
                planned_busy=mean,
                batch=row[3] / max(row[2], 1),
                queue=row[4],
                calls=int(row[2]),
                sms_busy=sum(w * r.sms for w, r in works) / span,
                cores_busy=sum(w * r.rated_cores for w, r in works) / span,
            )
        )
    return tuple(found)


def _works(
    world: World, planned: StagePlan, number: int, learns: bool, begun: Seen, now: Seen
) -> list[tuple[float, Replica]]:
    """(seconds at work, replica) of a stage."""
    if learns:
        pairs = zip(begun.ranks, now.ranks, strict=True)
    else:
        mine = [i for i, replica in enumerate(world.replicas) if replica.stage == number]
        pairs = zip([begun.busy[i] for i in mine], [now.busy[i] for i in mine], strict=True)
    return [(b - a, r) for (a, b), r in zip(pairs, planned.replicas, strict=True)]
