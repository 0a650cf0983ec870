"""A plan is checked from itself alone: every constraint recomputed in plain Python.

Invariant: nothing is taken from the solver or the compiler; times come from the plan's own points,
capacities from its own cluster, demands from its own program. An empty answer is the proof.
"""

from __future__ import annotations

import math
from collections import defaultdict

from ebrl.errors import Diagnostic
from ebrl.frontend.program import StageProgram
from ebrl.planner import layout, profile
from ebrl.planner.clock import Clock, ask
from ebrl.planner.demand import Demand, demands
from ebrl.planner.hardware import NodeClass
from ebrl.planner.learning import modes, published_bytes, throughput
from ebrl.planner.plan import Plan, Replica

RELATIVE = 1e-6


class _Book:
    """Faults as they are found."""

    def __init__(self) -> None:
        self.faults: list[Diagnostic] = []

    def expect(self, holds: bool, code: str, message: str, where: str = "") -> None:
        if not holds:
            self.faults.append(Diagnostic(code=code, message=message, where=where))

    def at_most(self, value: float, limit: float, code: str, what: str, where: str = "") -> None:
        self.expect(
            value <= limit * (1 + RELATIVE) + 1e-9,
            code,
            f"{what}: {value:.9g} exceeds {limit:.9g}",
            where,
        )


def verify(plan: Plan) -> tuple[Diagnostic, ...]:
    """Every constraint that the plan breaks."""
    book = _Book()
    _identities(plan, book)
    nodes = _nodes(plan)
    for stage in plan.stages:
        for replica in stage.replicas:
            where = f"stages.{stage.name}.replicas[{replica.index}]"
            book.expect(replica.node in nodes, "unknown-node", f"no node {replica.node!r}", where)
    if book.faults:
        return tuple(book.faults)
    _capacities(plan, nodes, book)
    _environments(plan, book)
    _rates(plan, nodes, book)
    _buffers(plan, book)
    return tuple(book.faults)


def _identities(plan: Plan, book: _Book) -> None:
    book.expect(
        plan.program_sha256 == plan.program.sha256, "program-hash", "hash of another graph file"
    )
    book.expect(plan.cluster_sha256 == plan.cluster.digest(), "cluster-hash", "another cluster")
    book.expect(plan.profile_sha256 == profile.digest(plan.profile), "profile-hash", "other points")
    names = [stage.name for stage in plan.program.stages]
    book.expect(
        [stage.name for stage in plan.stages] == names, "stages", f"the graph's stages are {names}"
    )
    for stage in plan.stages:
        book.expect(
            len(stage.replicas) > 0, "no-replica", "nothing runs it", f"stages.{stage.name}"
        )
        indices = [replica.index for replica in stage.replicas]
        book.expect(
            indices == list(range(len(indices))), "indices", "not 0, 1, …", f"stages.{stage.name}"
        )


def _nodes(plan: Plan) -> dict[str, NodeClass]:
    if plan.cluster.local:
        return {"local": plan.cluster.nodes[0]}
    return {
        f"{each.name}-{index}": each for each in plan.cluster.nodes for index in range(each.count)
    }


def _capacities(plan: Plan, nodes: dict[str, NodeClass], book: _Book) -> None:
    """Cores by node and phase, and by core set."""
    apart = {
        stage.name: plan.schedule == "synchronous" and stage.kind == "train"
        for stage in plan.stages
    }
    here: dict[tuple[str, bool], list[Replica]] = defaultdict(list)
    for stage in plan.stages:
        for replica in stage.replicas:
            here[replica.node, apart[stage.name]].append(replica)
    for (name, _), replicas in here.items():
        node = nodes[name]
        book.at_most(
            math.fsum(replica.cores for replica in replicas), node.cores, "cores", "cores", name
        )
        known = {core for domain in node.numa for core in domain} or set(range(node.cores))
        sets: dict[tuple[int, ...], float] = defaultdict(float)
        for replica in replicas:
            sets[replica.core_set] += replica.cores
            book.expect(
                bool(replica.core_set) and set(replica.core_set) <= known,
                "core-set",
                f"{list(replica.core_set)} are not cores of {name}",
                name,
            )
        for chosen, share in sets.items():
            book.at_most(share, len(chosen), "core-set", f"shares on cores {list(chosen)}", name)


def _environments(plan: Plan, book: _Book) -> None:
    """Each environment has one simulator and one policy, on the same node; enough are on their way."""
    program, count = plan.program, plan.environments.count
    if program.environment is not None:
        low, high = program.environment.min_count, program.environment.max_count
        pins = [int(pin.value) for pin in plan.pins if pin.key == "environments"]
        low, high = (pins[0], pins[0]) if pins else (low, high)
        book.expect(low <= count <= high, "environments", f"{count} is not within {low}–{high}")
    flight = 0.0
    homes: dict[int, str] = {}
    for demand in demands(program):
        stage = plan.stage(demand.name)
        if not demand.loop:
            continue
        served: list[tuple[int, int, str]] = []
        for replica in stage.replicas:
            flight += replica.busy * replica.batch
            first, last = replica.environments or (0, 0)
            served.append((first, last, replica.node))
        served.sort()
        expected = 0
        for first, last, node in served:
            book.expect(
                first == expected and last > first,
                "environments",
                f"{demand.name} serves [{first}, {last}) after {expected}",
                f"stages.{demand.name}",
            )
            expected = last
            for environment in range(first, last):
                book.expect(
                    homes.setdefault(environment, node) == node,
                    "locality",
                    f"environment {environment} is on {homes[environment]} and on {node}",
                    f"stages.{demand.name}",
                )
        book.expect(
            expected == count, "environments", f"{demand.name} serves {expected} of {count}"
        )
    book.at_most(flight, count, "little", "environments in flight")
    if program.training is not None and flight:
        eta = max(1, plan.max_staleness)
        limit = eta * layout.segments_per_batch(program)
        book.at_most(flight, limit, "staleness", "environments in flight under the staleness bound")


def _rates(plan: Plan, nodes: dict[str, NodeClass], book: _Book) -> None:
    """Recomputed from the points: every stage keeps the pace that is predicted, in its own node."""
    clock = Clock(plan.program, plan.profile)
    predicted = plan.prediction.throughput_env_steps_per_s
    rollout: dict[str, float] = {}
    learner = math.inf
    for demand in demands(plan.program):
        rates = _supply(plan, clock, demand, nodes, book)
        if demand.learns:
            learner = math.fsum(rates.values()) / demand.items
        elif demand.loop:
            for node, rate in rates.items():
                rollout[node] = min(rollout.get(node, math.inf), rate / demand.items)
        else:
            book.at_most(predicted, math.fsum(rates.values()) / demand.items, "pace", demand.name)
    reached = math.fsum(rollout.values()) if rollout else math.inf
    mode = None
    stage = next((s for s in plan.program.stages if s.kind == "train"), None)
    if stage is not None:
        mode = _mode(plan, stage, book)
    if mode is not None and rollout:
        reached = throughput(plan.schedule, mode, reached, learner)
    book.at_most(predicted, reached, "pace", "predicted throughput against what the stages reach")
    bound = plan.prediction.bound_env_steps_per_s
    book.at_most(predicted, bound, "bound", "predicted throughput")


def _supply(
    plan: Plan, clock: Clock, demand: Demand, nodes: dict[str, NodeClass], book: _Book
) -> dict[str, float]:
    """Items a second of the stage, by node, at the planned busy shares (learners: when always busy)."""
    found: dict[str, list[float]] = defaultdict(list)
    times: dict[tuple[str, int, float, int], float | None] = {}
    for replica in plan.stage(demand.name).replicas:
        where = f"stages.{demand.name}.replicas[{replica.index}]"
        device = None if replica.device is None else nodes[replica.node].device
        cores = replica.rated_cores
        key = (device.name if device else "cpu", replica.sms, cores, replica.batch)
        if key not in times:
            time = clock.of(demand.stage, device)
            estimate = ask(time, replica.sms, cores, replica.batch) if time else None
            times[key] = None if estimate is None else float(estimate.median_s)
        seconds = times[key]
        if seconds is None:
            book.expect(False, "profile", f"no time for {key}", where)
            continue
        book.at_most(replica.busy, 1.0, "busy", "busy share", where)
        found[replica.node].append(replica.busy * replica.batch / seconds)
    return {node: math.fsum(rates) for node, rates in found.items()}


def _mode(plan: Plan, stage: StageProgram, book: _Book) -> object:
    """The way of spreading the learner that the replicas show."""
    replicas = plan.stage(stage.name).replicas
    where = f"stages.{stage.name}"
    hardware = "cpu" if all(r.device is None for r in replicas) else "gpu"
    spread = {r.node for r in replicas}
    span = "one" if len(replicas) == 1 else "node" if len(spread) == 1 else "cluster"
    for mode in modes(plan.program, plan.cluster, stage):
        if mode.hardware == hardware and mode.span == span:
            book.at_most(len(replicas), mode.ranks, "ranks", "ranks", where)
            book.expect(
                sum(r.share for r in replicas) == mode.batch,
                "shares",
                f"the ranks take {sum(r.share for r in replicas)} of {mode.batch} items",
                where,
            )
            return mode
    book.expect(False, "span", f"{stage.name} cannot span {len(replicas)} replicas", where)
    return None


def _buffers(plan: Plan, book: _Book) -> None:
    program = plan.program
    if program.environment is None or program.training is None:
        return
    segments = layout.segment_count(program, plan.environments.count, plan.max_staleness)
    weights = int(published_bytes(program))
    total = layout.slab_layout(
        program,
        environments=plan.environments.count,
        segments=segments,
        workers=sum(len(stage.replicas) for stage in plan.stages),
        weights_bytes=weights,
    ).total_bytes
    book.expect(
        (plan.buffers.segments, plan.buffers.slab_bytes) == (segments, total),
        "buffers",
        f"{plan.buffers.segments} segments in {plan.buffers.slab_bytes} bytes; the graph needs "
        f"{segments} in {total}",
        "buffers",
    )
