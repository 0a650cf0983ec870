"""The plan's half of the report: its verdict, stages, prediction, alternatives, buffers."""

from __future__ import annotations

import msgspec

from ebrl.planner.plan import Plan, StagePlan
from ebrl.planner.report.bars import Bar, Part, bar, colours
from ebrl.planner.report.words import (
    count,
    error,
    exact_bytes,
    gap,
    join,
    number,
    percent,
    plural,
    size,
    time,
)
from ebrl.planner.telling.table import device_of


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its name. `tone` colours the note: good, fair or poor."""

    name: str
    value: str
    unit: str = ""
    note: str = ""
    tone: str = ""


class StageLine(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the stage table."""

    name: str
    kind: str
    type: str
    colour: str
    replicas: str
    device: str
    sms: str
    cores: str
    batch: str
    seconds: str
    utilisation: str
    busy: Bar
    memory: str
    source: str


class AlternativeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was considered, beside the chosen one."""

    name: str
    rate: str
    against: str
    why: str
    chosen: bool = False


def verdict(plan: Plan) -> str:
    """The plan in one sentence."""
    said = plan.prediction
    rank = {"measured": 0, "published": 1, "estimated": 2}
    kinds = sorted({stage.source for stage in plan.stages}, key=lambda each: rank[each])
    steps = (
        f"{number(said.throughput_env_steps_per_s)} environment steps/s predicted from "
        f"{join(kinds)} stage times"
    )
    if said.status != "optimal":
        proof = f"within {gap(said.gap)} of a proven bound when the solver's time was up"
    elif said.gap < 5e-7:
        proof = "as fast as any plan can be on this hardware"
    else:
        proof = f"proven to be within {gap(said.gap)} of the fastest plan there can be"
    return f"{steps}, {proof}; {_held_back(plan)}."


def _held_back(plan: Plan) -> str:
    name = plan.prediction.bottleneck
    by = name if any(each.name == name for each in plan.stages) else f"the number of {name}"
    return f"{'the staleness bound' if name == 'staleness' else by} holds it back"


def objective(plan: Plan) -> str:
    """What was asked for."""
    if plan.objective == "throughput":
        return "the most environment steps a second"
    least = "" if plan.at_least is None else f" for at least {number(plan.at_least)} steps/s"
    return {"cost": "the lowest price", "devices": "the fewest devices"}[plan.objective] + least


def facts(plan: Plan) -> tuple[Fact, ...]:
    """Prediction, bound, gap, and how the plan works."""
    said, environments = plan.prediction, plan.environments
    proof = "proven by the solver" if said.status == "optimal" else "the solver's time was up"
    return (
        Fact(
            name="Predicted",
            value=number(said.throughput_env_steps_per_s),
            unit="steps/s",
            note=f"environment steps, {plan.schedule}",
        ),
        Fact(
            name="Bound",
            value=number(said.bound_env_steps_per_s),
            unit="steps/s",
            note="no plan on this hardware passes it",
        ),
        Fact(name="Gap", value=gap(said.gap), note=proof),
        Fact(
            name="Staleness allowed",
            value=count(plan.max_staleness),
            unit="version" if plan.max_staleness == 1 else "versions",
            note="rollout and training overlap" if plan.max_staleness else "they alternate",
        ),
        Fact(
            name="Environments",
            value=count(environments.count),
            note=f"in flight, in {plural(environments.groups, 'group')} a simulation worker",
        ),
        Fact(name="Objective", value=plan.objective, note=objective(plan)),
    )


def stage_lines(plan: Plan) -> tuple[StageLine, ...]:
    """In the order of the graph."""
    palette = colours(plan)
    types = {each.name: each.type.rpartition(".")[2] for each in plan.program.stages}
    return tuple(
        StageLine(
            name=stage.name,
            kind=stage.kind,
            type=types.get(stage.name, ""),
            colour=palette[stage.name],
            replicas=count(len(stage.replicas)),
            device=device_of(plan, stage),
            sms=count(stage.sms) if stage.sms else "–",
            cores=number(stage.cores),
            batch=_batch(stage),
            seconds=time(stage.seconds),
            utilisation=percent(stage.utilisation),
            busy=bar(
                f"{stage.name} busy",
                [
                    Part(
                        name="busy",
                        amount=min(stage.utilisation, 1.0),
                        value=percent(stage.utilisation),
                        colour=palette[stage.name],
                    )
                ],
                1.0,
            ),
            memory=size(stage.memory_bytes) if stage.memory_bytes else "–",
            source=stage.source,
        )
        for stage in plan.stages
    )


def _batch(stage: StagePlan) -> str:
    ranks = sum(1 for each in stage.replicas if each.share)
    return count(stage.batch) + (f" over {ranks} ranks" if ranks > 1 else "")


def alternatives(plan: Plan) -> tuple[AlternativeLine, ...]:
    """The chosen plan, then the others, the fastest first; empty where none was considered."""
    if not plan.alternatives:
        return ()
    chosen = plan.prediction.throughput_env_steps_per_s
    lines = [
        AlternativeLine(
            name="this plan", rate=f"{number(chosen)} steps/s", against="", why="", chosen=True
        )
    ]
    for each in sorted(plan.alternatives, key=lambda one: -(one.throughput_env_steps_per_s or 0)):
        rate = each.throughput_env_steps_per_s
        off = None if rate is None else error(rate, chosen)
        lines.append(
            AlternativeLine(
                name=each.name,
                rate="does not fit" if rate is None else f"{number(rate)} steps/s",
                against="" if off is None else off.text,
                why=each.why,
            )
        )
    return tuple(lines)


def buffers(plan: Plan) -> tuple[Fact, ...]:
    """What the data plane allocates before the first step."""
    made = plan.buffers
    return (
        Fact(
            name="Segments",
            value=exact_bytes(made.segments * made.segment_bytes),
            note=f"{count(made.segments)} of {made.segment_bytes:,} B, each "
            f"{plural(made.horizon, 'consecutive step')} of one environment",
        ),
        Fact(
            name="Weights",
            value=exact_bytes(2 * made.weights_bytes),
            note=f"two buffers of {made.weights_bytes:,} B, so no reader meets a half-written one",
        ),
        Fact(
            name="Shared memory in all",
            value=exact_bytes(made.slab_bytes),
            note="allocated before the first step; nothing is allocated after it",
        ),
    )


def memory_bytes(plan: Plan) -> int | None:
    """Host memory that a plan on cores alone accounts for; None where devices have their own."""
    replicas = [replica for stage in plan.stages for replica in stage.replicas]
    if any(each.device is not None for each in replicas):
        return None
    return plan.buffers.slab_bytes + sum(
        stage.memory_bytes * len(stage.replicas) for stage in plan.stages
    )


def hardware(plan: Plan) -> str:
    """The cluster, in words."""
    parts = []
    for node in plan.cluster.nodes:
        has = [plural(node.cores, "core")]
        if node.device is not None:
            has.append(f"{node.devices} × {node.device.name}")
        has.append(f"{size(node.ram_bytes)} of memory")
        named = f"{node.name} has " if len(plan.cluster.nodes) > 1 or node.count > 1 else ""
        parts.append(named + ", ".join(has))
    text = "; ".join(parts) if len(parts) < 5 else f"{len(parts)} classes of nodes"
    return f"{'this machine' if plan.cluster.local else plan.cluster.text} ({text})"
