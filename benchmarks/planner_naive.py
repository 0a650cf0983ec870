"""The model that one writes first: a binary variable for every device and option of a stage.

Same options, same solver, one thread; no interference, no turns, no Little's law, so it even has
less to decide than the planner's model. It is here to be compared with, and for nothing else.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from ebrl.planner.model.solver import Model, solve
from ebrl.planner.model.space import Space


@dataclass(frozen=True, slots=True, kw_only=True)
class Naive:
    """`gap` is what the solver had proven when it stopped."""

    columns: int
    status: str
    throughput: float
    gap: float
    seconds: float


def plan(space: Space, *, time_limit_s: float) -> Naive:
    """One node class with devices; options on cores are pooled as in the planner's model."""
    begun = time.perf_counter()
    (each,) = space.classes
    device = each.node.device
    assert device is not None
    model = Model()
    rate = model.column("throughput", objective=1.0)
    pace: dict[str, dict[int, float]] = {
        demand.name: {rate: -demand.items} for demand in space.demands
    }
    for d in range(each.node.count * each.node.devices):
        sms: dict[int, float] = {}
        memory: dict[int, float] = {}
        once: dict[str, dict[int, float]] = {demand.name: {} for demand in space.demands}
        for option in each.on_device:
            column = model.column(f"{d} {option.stage}", high=1.0, integer=True)
            sms[column] = option.sms
            memory[column] = option.memory_bytes / 1e9
            once[option.stage][column] = 1.0
            pace[option.stage][column] = option.rate
        model.row("SMs", sms, high=device.sms)
        model.row("memory", memory, high=device.memory_bytes / 1e9)
        for terms in once.values():
            if terms:
                model.row("one option a stage", terms, high=1.0)
    cores: dict[int, float] = {}
    for option in each.on_cores:
        column = model.column(f"cores {option.stage}", high=each.node.count * each.node.cores)
        cores[column] = option.cores
        pace[option.stage][column] = option.rate
    model.row("cores", cores, high=each.node.count * each.node.cores)
    for terms in pace.values():
        model.row("pace", terms, low=0.0)
    outcome = solve(model, time_limit_s=time_limit_s, relative_gap=1e-3)
    return Naive(
        columns=len(model.names),
        status=outcome.status,
        throughput=outcome.objective,
        gap=outcome.gap,
        seconds=time.perf_counter() - begun,
    )
