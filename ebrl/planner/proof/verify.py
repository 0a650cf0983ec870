"""A plan is checked from itself alone: every constraint recomputed in plain Python.

Invariant: nothing is taken from the solver or the compiler; times come from the plan's own
points, capacities from its own cluster, demands from its own program. An empty answer is the
proof.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ebrl.errors import Diagnostic, PlanError
from ebrl.frontend.program import StageProgram
from ebrl.planner import layout, profile
from ebrl.planner.hardware import NodeClass
from ebrl.planner.model.clock import Clock, ask
from ebrl.planner.model.demand import Demand, demands
from ebrl.planner.model.learning import Mode, modes, published_bytes, throughput
from ebrl.planner.plan import Plan
from ebrl.planner.proof import capacity
from ebrl.planner.proof.book import Book

Home = tuple[int, int, str]  # [first, last) environment, and the node that they are on
SHOWN = 4  # faults that are told


def verify(plan: Plan) -> tuple[Diagnostic, ...]:
    """Every constraint that the plan breaks."""
    book = Book()
    _identities(plan, book)
    nodes = nodes_of(plan)
    for stage in plan.stages:
        for replica in stage.replicas:
            where = f"stages.{stage.name}.replicas[{replica.index}]"
            book.expect(replica.node in nodes, "node", f"no node {replica.node!r}", where)
            book.expect(replica.batch >= 1, "batch", f"a batch of {replica.batch}", where)
            book.expect(replica.rated_cores > 0, "cores", "no cores", where)
            book.expect(math.isfinite(replica.busy) and replica.busy >= 0, "busy", "busy", where)
    if not book.faults:
        capacity.check(plan, nodes, book)
        _environments(plan, book)
        _rates(plan, nodes, book)
        _pins(plan, book)
        _buffers(plan, book)
    return tuple(book.faults)


def nodes_of(plan: Plan) -> dict[str, NodeClass]:
    """Every node of the cluster, by the name that replicas use."""
    if plan.cluster.local:
        return {"local": plan.cluster.nodes[0]}
    return {
        f"{each.name}-{index}": each for each in plan.cluster.nodes for index in range(each.count)
    }


def _identities(plan: Plan, book: Book) -> None:
    book.expect(
        plan.program_sha256 == plan.program.sha256, "program-hash", "hash of another graph file"
    )
    book.expect(plan.cluster_sha256 == plan.cluster.digest(), "cluster-hash", "another cluster")
    book.expect(plan.profile_sha256 == profile.digest(plan.profile), "profile-hash", "other points")
    names = [stage.name for stage in plan.program.stages]
    book.expect(
        [stage.name for stage in plan.stages] == names, "stages", f"the graph's stages are {names}"
    )
    for edge in plan.program.edges:
        ends = {edge.source.split(".")[0], edge.target.split(".")[0]}
        where = f"{edge.source} >> {edge.target}"
        book.expect(ends <= {*names}, "edges", "it joins no two stages of the graph", where)
    for stage in plan.stages:
        where = f"stages.{stage.name}"
        book.expect(len(stage.replicas) > 0, "no-replica", "nothing runs it", where)
        indices = [replica.index for replica in stage.replicas]
        book.expect(indices == list(range(len(indices))), "indices", "not 0, 1, …", where)


def _environments(plan: Plan, book: Book) -> None:
    """Each environment has one replica of each loop stage, all on one node; there are enough."""
    program, count, groups = plan.program, plan.environments.count, plan.environments.groups
    if program.environment is not None:
        low, high = program.environment.min_count, program.environment.max_count
        pins = [int(pin.value) for pin in plan.pins if pin.key == "environments"]
        low, high = (pins[0], pins[0]) if pins else (low, high)
        book.expect(low <= count <= high, "environments", f"{count} is not within {low}–{high}")
    flight = 0.0
    homes: list[Home] = []
    for demand in demands(program):
        if not demand.loop:
            continue
        where = f"stages.{demand.name}"
        wanted: dict[str, int] = defaultdict(int)
        given: dict[str, int] = defaultdict(int)
        expected = 0
        served: list[Home] = []
        for replica in sorted(plan.stage(demand.name).replicas, key=lambda r: r.environments or ()):
            flight += replica.busy * replica.batch
            first, last = replica.environments or (0, 0)
            book.expect(
                first == expected and last > first,
                "environments",
                f"[{first}, {last}) after {expected}",
                where,
            )
            expected = last
            given[replica.node] += last - first
            alone = demand.holds and replica.device is None
            wanted[replica.node] += 1 if alone else groups * replica.batch
            served.append((first, last, replica.node))
        book.expect(expected == count, "environments", f"{expected} of {count} served", where)
        for node, number in wanted.items():
            book.at_most(number, given[node], "groups", f"environments on {node}", where)
        homes = homes or _by_node(served)
        _stay_home(served, homes, book, where)
    book.at_most(flight, count, "little", "environments in flight")
    if program.training is not None and flight:
        limit = max(1, plan.max_staleness) * layout.segments_per_batch(program)
        book.at_most(flight, limit, "staleness", "environments in flight under the staleness bound")


def _by_node(served: Sequence[Home]) -> list[Home]:
    """Neighbours on one node made one."""
    found: list[Home] = []
    for first, last, node in served:
        if found and found[-1][2] == node and found[-1][1] == first:
            found[-1] = (found[-1][0], last, node)
        else:
            found.append((first, last, node))
    return found


def _stay_home(served: Sequence[Home], homes: Sequence[Home], book: Book, where: str) -> None:
    """No replica serves environments of another node."""
    starts = [home[0] for home in homes]
    for first, last, node in served:
        home = homes[max(0, bisect_right(starts, first) - 1)]
        book.expect(
            home[2] == node and last <= home[1],
            "locality",
            f"environments [{first}, {last}) are on {home[2]} up to {home[1]}, and on {node}",
            where,
        )


def _rates(plan: Plan, nodes: Mapping[str, NodeClass], book: Book) -> None:
    """Recomputed from the points: every stage keeps the pace that is predicted, in its own node."""
    clock = Clock(plan.program, plan.profile)
    predicted = plan.prediction.throughput_env_steps_per_s
    rollout: dict[str, float] = {}
    learner = math.inf
    for s, demand in enumerate(demands(plan.program)):
        rates = _supply(plan, clock, demand, nodes, book)
        if demand.learns:
            learner = math.fsum(rates.values()) / demand.items
        elif demand.loop:
            for node in {*rates, *rollout} if s else rates:
                known = rollout.get(node, math.inf)
                rollout[node] = min(known, rates.get(node, 0.0) / demand.items)
        else:
            total = math.fsum(rates.values()) / demand.items
            book.at_most(predicted, total, "pace", demand.name)
    reached = math.fsum(rollout.values()) if rollout else math.inf
    stage = next((s for s in plan.program.stages if s.kind == "train"), None)
    mode = None if stage is None else _mode(plan, stage, book)
    if mode is not None:
        reached = throughput(plan.schedule, mode, reached, learner)
    book.at_most(predicted, reached, "pace", "predicted throughput against what stages reach")
    bound = plan.prediction.bound_env_steps_per_s
    book.at_most(predicted, bound, "bound", "predicted throughput")
    if plan.at_least is not None:
        book.at_most(plan.at_least, predicted, "at-least", "throughput asked for")


def _supply(
    plan: Plan, clock: Clock, demand: Demand, nodes: Mapping[str, NodeClass], book: Book
) -> dict[str, float]:
    """Items a second of the stage at the planned busy shares, by node."""
    found: dict[str, list[float]] = defaultdict(list)
    times: dict[object, float | None] = {}
    for replica in plan.stage(demand.name).replicas:
        device = None if replica.device is None else nodes[replica.node].device
        place = device.name if device is not None else "cpu"
        key = (place, replica.sms, replica.rated_cores, replica.batch)
        if key not in times:
            time = clock.of(demand.stage, device)
            times[key] = None
            if time is not None and (device is None or replica.sms > 0):
                estimate = ask(time, replica.sms, replica.rated_cores, replica.batch)
                times[key] = float(estimate.median_s) if estimate is not None else None
        seconds = times[key]
        if seconds is None:
            where = f"stages.{demand.name}.replicas[{replica.index}]"
            book.expect(False, "profile", f"no time for {key}", where)
            continue
        book.at_most(replica.busy, 1.0, "busy", "busy share", f"stages.{demand.name}")
        found[replica.node].append(replica.busy * replica.batch / seconds)
        if replica.device is None:
            book.at_most(
                replica.busy * replica.rated_cores, replica.cores, "cores", "cores it works on"
            )
    return {node: math.fsum(rates) for node, rates in found.items()}


def _mode(plan: Plan, stage: StageProgram, book: Book) -> Mode | None:
    """The way of spreading the learner that the replicas show."""
    planned = plan.stage(stage.name)
    replicas, where = planned.replicas, f"stages.{stage.name}"
    hardware = "cpu" if all(r.device is None for r in replicas) else "gpu"
    span = "one" if len(replicas) == 1 else "node"
    span = "cluster" if len({r.node for r in replicas}) > 1 else span
    taken = sum(r.share for r in replicas)
    for mode in modes(plan.program, plan.cluster, stage):
        if (mode.hardware, mode.span) != (hardware, span):
            continue
        book.at_most(len(replicas), mode.ranks, "ranks", "ranks", where)
        book.at_most(planned.shards, len(replicas), "shards", "shards", where)
        book.expect(taken == mode.batch, "shares", f"ranks take {taken} of {mode.batch}", where)
        small = sum(r.batch for r in replicas)
        book.at_most(small, mode.batch, "shares", "calls that make up an update", where)
        return mode
    book.expect(False, "span", f"{stage.name} cannot span {len(replicas)} replicas", where)
    return None


def _pins(plan: Plan, book: Book) -> None:
    for pin in plan.pins:
        where = f"pin {pin.stage}.{pin.key}"
        replicas = plan.stage(pin.stage).replicas
        if pin.key == "replicas":
            book.expect(len(replicas) == pin.value, "pin", f"{len(replicas)} replicas", where)
        elif pin.key == "environments":
            book.expect(plan.environments.count == pin.value, "pin", "another count", where)
        else:
            field = "rated_cores" if pin.key == "cores" else pin.key
            alike = all(
                getattr(r, field) == pin.value
                for r in replicas
                if r.device is not None or pin.key != "sms"
            )
            book.expect(alike, "pin", f"not everywhere {pin.value:g}", where)


def _buffers(plan: Plan, book: Book) -> None:
    program = plan.program
    if program.environment is None or program.training is None:
        return
    segments = layout.segment_count(program, plan.environments.count, plan.max_staleness)
    total = layout.slab_layout(
        program,
        environments=plan.environments.count,
        segments=segments,
        workers=sum(len(stage.replicas) for stage in plan.stages),
        weights_bytes=int(published_bytes(program)),
    ).total_bytes
    book.expect(
        (plan.buffers.segments, plan.buffers.slab_bytes) == (segments, total),
        "buffers",
        f"{plan.buffers.segments} segments in {plan.buffers.slab_bytes} bytes; the graph needs "
        f"{segments} in {total}",
        "buffers",
    )


def sound(plan: Plan, where: str) -> Plan:
    """The plan, or a PlanError with what it breaks: a file may have been edited."""
    try:
        faults = verify(plan)
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        # Checks lean on one another; what one would need may be what another has not got to yet.
        faults = (Diagnostic(code="unreadable", message=f"{type(error).__name__}: {error}"),)
    if not faults:
        return plan
    told = [f"{each.where}: {each.message}" if each.where else each.message for each in faults]
    more = f", and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    raise PlanError(
        "plan-inconsistent",
        f"the plan contradicts itself: {'; '.join(told[:SHOWN])}{more}",
        where=where,
        hint="the file was edited, or written by another version; plan again",
    )
