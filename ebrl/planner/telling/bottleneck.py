"""What holds the pipeline back, in words and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ebrl.planner.binding.result import Binding
from ebrl.planner.model.space import Space
from ebrl.planner.plan import StagePlan

FULL = 0.995
CROWDED = 0.9  # part of all devices' time from which they are what is short


def bottleneck(space: Space, binding: Binding, stages: Sequence[StagePlan]) -> tuple[str, str]:
    """A stage's name, "environments" or "staleness", and why."""
    rate = binding.throughput
    flight = _in_flight(space, stages)
    if flight >= FULL * space.in_flight:
        return "staleness", (
            f"{flight:.1f} environments have to be on their way and the staleness bound lets "
            f"{space.in_flight:.0f}"
        )
    spent = {stage.name: _core_seconds(stage, rate) for stage in stages}
    cores = sum(space.classes[node.k].node.cores for node in binding.nodes)
    used = math.fsum(spent.values()) * rate
    if space.schedule == "asynchronous" and cores and used >= FULL * cores:
        name = max(spent, key=lambda each: (spent[each], each))
        parts = " + ".join(
            f"{seconds * 1e6:.0f} µs {each}" for each, seconds in spent.items() if seconds > 0
        )
        return name, (
            f"{cores} cores ÷ ({parts}) of core time an environment step = {rate:,.0f} steps/s; "
            f"{name} takes {spent[name] / math.fsum(spent.values()):.0%} of it"
        )
    device = _devices(space, stages, rate) if space.schedule == "asynchronous" else None
    if device is not None:
        return device
    if flight >= FULL * space.environments[1]:
        return "environments", (
            f"{flight:.1f} of {space.environments[1]} environments are on their way at any time "
            "(Little's law): more of them would hide more latency"
        )
    if space.schedule == "synchronous":
        busiest = max(stages, key=lambda stage: (stage.utilisation, stage.name))
        shares = ", ".join(f"{stage.name} {stage.utilisation:.0%}" for stage in stages)
        return busiest.name, (
            f"rollout and training alternate (max_staleness 0), and of the time are busy: {shares}"
        )
    busiest = max(stages, key=lambda stage: (stage.utilisation, stage.name))
    return busiest.name, (
        f"{busiest.name} is busy {busiest.utilisation:.0%} of the time: "
        f"{len(busiest.replicas)} × {busiest.replicas[0].batch} items in {busiest.seconds:.4g} s"
    )


def _devices(space: Space, stages: Sequence[StagePlan], rate: float) -> tuple[str, str] | None:
    """Are the devices full? Then the stage that takes most of them, and the arithmetic."""
    count = sum(each.node.count * each.node.devices for each in space.classes)
    sms = max((e.node.device.sms for e in space.classes if e.node.device is not None), default=0)
    spent = {
        stage.name: math.fsum(r.busy * r.sms / sms for r in stage.replicas if r.device is not None)
        for stage in stages
        if sms
    }
    busy = math.fsum(spent.values())
    if not count or busy < CROWDED * count or len({e.node.device for e in space.classes}) > 1:
        return None
    name = max(spent, key=lambda each: (spent[each], each))
    parts = " + ".join(
        f"{1e3 * share / rate:.3g} ms {each}" for each, share in spent.items() if share > 0
    )
    return name, (
        f"{count} GPUs are busy {busy / count:.1%} of the time, with {parts} of GPU time an "
        f"environment step; {name} takes {spent[name] / busy:.0%} of it"
    )


def _core_seconds(stage: StagePlan, rate: float) -> float:
    """Core time that one environment step costs the stage."""
    return math.fsum(replica.cores for replica in stage.replicas) / rate


def _in_flight(space: Space, stages: Sequence[StagePlan]) -> float:
    """Environments inside a call of a loop stage, on average."""
    loop = {demand.name for demand in space.demands if demand.loop}
    return math.fsum(
        replica.busy * (replica.batch if replica.batch > 0 else 1)
        for stage in stages
        if stage.name in loop
        for replica in stage.replicas
    )


def notes(stages: Sequence[StagePlan]) -> tuple[str, ...]:
    """What a reader has to know to judge the figures."""
    found = []
    estimated = [stage.name for stage in stages if stage.source == "estimated"]
    if estimated:
        found.append(
            f"the times of {', '.join(estimated)} are estimated, not measured: a profile "
            "(ebrl profile) makes the prediction worth more"
        )
    if any(replica.device is not None for stage in stages for replica in stage.replicas):
        found.append(
            "how much stages slow each other down on one device is assumed (1.1 for two on split "
            "SMs, 1.2 for three, 1.05 for taking turns) where it was not measured"
        )
    return tuple(found)
