"""What `ebrl plan` prints and puts into its JSON: the same rows for both."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ebrl.planner.plan import Plan, StagePlan
from ebrl.planner.units import three_digits, write_bytes


class StageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the plan. `seconds` is one batch on one replica."""

    name: str
    replicas: int
    device: str
    sms: int
    cores: float
    batch: int
    seconds: float
    utilisation: float
    source: str
    nodes: int


def stage_rows(plan: Plan) -> tuple[StageRow, ...]:
    """In the order of the graph."""
    return tuple(_row(plan, stage) for stage in plan.stages)


def _row(plan: Plan, stage: StagePlan) -> StageRow:
    nodes = {replica.node for replica in stage.replicas}
    return StageRow(
        name=stage.name,
        replicas=len(stage.replicas),
        device=device_of(plan, stage),
        sms=stage.sms,
        cores=round(stage.cores, 4),
        batch=stage.batch,
        seconds=stage.seconds,
        utilisation=stage.utilisation,
        source=stage.source,
        nodes=len(nodes),
    )


def device_of(plan: Plan, stage: StagePlan) -> str:
    """The kinds of hardware that the replicas are on, as in "a100 + l40s"."""
    kinds: dict[str, None] = {}
    for replica in stage.replicas:
        node = replica.node if plan.cluster.local else replica.node.rpartition("-")[0]
        found = next(each for each in plan.cluster.nodes if plan.cluster.local or each.name == node)
        kinds[found.device.name if replica.device is not None and found.device else "cores"] = None
    return " + ".join(kinds)


def summary(plan: Plan, path: str) -> dict[str, object]:
    """The object of `ebrl plan --json`."""
    said = plan.prediction
    return {
        "throughput_env_steps_per_s": said.throughput_env_steps_per_s,
        "bound_env_steps_per_s": said.bound_env_steps_per_s,
        "gap": said.gap,
        "status": said.status,
        "solve_s": plan.made.solve_s,
        "total_s": plan.made.total_s,
        "bottleneck": said.bottleneck,
        "why": said.why,
        "schedule": plan.schedule,
        "max_staleness": plan.max_staleness,
        "environments": plan.environments.count,
        "groups": plan.environments.groups,
        "slab_bytes": plan.buffers.slab_bytes,
        "stages": [msgspec.to_builtins(row) for row in stage_rows(plan)],
        "alternatives": [msgspec.to_builtins(each) for each in plan.alternatives],
        "notes": list(plan.notes),
        "plan": path,
    }


def seconds(value: float) -> str:
    """A time with three digits and the unit that suits it."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 0.9995 or unit == "µs":
            return f"{three_digits(value * factor)} {unit}"
    raise AssertionError


HEADINGS = ("stage", "replicas", "device", "SMs", "cores", "batch", "time", "busy", "source")


def cells(row: StageRow) -> Sequence[str]:
    """One line of the table, as text."""
    return (
        row.name,
        str(row.replicas),
        row.device,
        str(row.sms) if row.sms else "-",
        f"{round(row.cores, 1):,g}" if row.cores >= 100 else f"{row.cores:.4g}",
        str(row.batch),
        seconds(row.seconds),
        f"{row.utilisation:.0%}",
        row.source,
    )


PROOF = {
    "optimal": "proven",
    "time limit": "the time limit was met",
    "effort limit": "the best that the search found, not proven",
}


def _objective(plan: Plan) -> list[str]:
    """What was minimised, where it was not throughput that was maximised."""
    said = plan.prediction
    if plan.objective == "throughput":
        return []
    unit = "an hour" if plan.objective == "cost" else "GPUs in use"
    return [
        f"minimised   {plan.objective}: {said.objective_value:,.6g} {unit}, at least "
        f"{said.objective_bound:,.6g} (gap {said.gap:.2%}, {PROOF[said.status]}), for at least "
        f"{plan.at_least:,.6g} steps/s"
    ]


def told(plan: Plan, path: object) -> list[str]:
    """The lines below the table: prediction, bound, bottleneck, and how to go on."""
    said, buffers = plan.prediction, plan.buffers
    lines = [
        f"predicted   {said.throughput_env_steps_per_s:,.1f} environment steps/s, {plan.schedule}, "
        f"max_staleness {plan.max_staleness}",
        f"bound       {said.bound_env_steps_per_s:,.1f}"
        + (
            f" (gap {said.gap:.2%}, {PROOF[said.status]})" if plan.objective == "throughput" else ""
        ),
        *_objective(plan),
        f"bottleneck  {said.bottleneck}: {said.why}",
        f"in flight   {plan.environments.count} environments in {plan.environments.groups} "
        f"group{'s' if plan.environments.groups > 1 else ''}, {buffers.segments} segments of "
        f"{write_bytes(buffers.segment_bytes)}, {write_bytes(buffers.slab_bytes)} shared",
    ]
    for each in plan.alternatives:
        rate = each.throughput_env_steps_per_s
        value = "does not fit" if rate is None else f"{rate:,.1f} steps/s"
        lines.append(f"rejected    {each.name}: {value}; {each.why}")
    lines += [f"note        {note}" for note in plan.notes]
    lines += ["", f"written to {path}; go on with: ebrl execute {path}, or ebrl explain {path}"]
    return lines
