"""What a stage may be given: hardware, quota, batch, and what it then does and costs.

Invariant: an option is one replica. Its rate is `batch / seconds` while it is busy; everything
that depends on what shares its device or its cores is the model's business, not the option's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from ebrl.errors import PlanError
from ebrl.frontend.program import Work
from ebrl.planner import roofline
from ebrl.planner.hardware import DeviceKind, NodeClass
from ebrl.planner.interpolate import StageTime
from ebrl.planner.model.clock import Clock, ask
from ebrl.planner.model.demand import Demand
from ebrl.planner.model.request import pinned
from ebrl.planner.plan import Pin
from ebrl.planner.profile import Point

CONTEXT_BYTES = 500_000_000  # of a process on a device: its context, before it allocates anything
WORTH = 1e-3  # relative gain from which a larger quota or batch is an option of its own


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a stage. `cores` are busy while it is; `batch` is items of one call.

    `ram_bytes` and `memory_bytes` (of the device) are resident. `resident` is how many environments
    live in it, for a stage that holds them in batches; 0 where their number is free.
    """

    stage: str
    device: str  # kind of device, or "cpu"
    sms: int
    cores: float
    batch: int
    seconds: float
    memory_bytes: int
    ram_bytes: int
    source: str
    resident: int = 0
    env_ram_bytes: float = 0.0  # of each environment in it

    @property
    def rate(self) -> float:
        """Items a second while busy."""
        return self.batch / self.seconds


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """What the number of environments and the update allow a batch to be."""

    environments: tuple[int, int]
    groups: int
    update: int  # items of one update
    ranks: int  # that an update may be split over
    shards: int  # ranks that the learner's state is split over
    whole_learner: bool = False  # in a phase of its own it has the whole device


def core_options(
    clock: Clock, demand: Demand, node: NodeClass, scale: Scale, pins: Sequence[Pin]
) -> tuple[Option, ...]:
    """Options of a stage on cores alone, cheapest first; empty where it cannot run there."""
    stage = demand.stage
    time = clock.of(stage, None)
    if time is None:
        return ()
    points = clock.points_of(stage, None)
    cores = sorted({1.0, *(p.cores for p in points)} if points else {1.0})
    if (pin := pinned(tuple(pins), stage.name, "cores")) is not None:
        cores = [pin]
    cores = [c for c in cores if c <= node.cores]
    batches = [1] if demand.holds else _batches(demand, points, scale, pins)
    found: list[Option] = []
    for c in cores:
        for batch in batches:
            estimate = ask(time, 0, c, batch)
            if estimate is None:
                continue
            ram, each = int(estimate.bytes), 0.0
            if demand.holds:
                ram, each = ram_of_environments(points, stage.work)
            found.append(
                Option(
                    stage=stage.name,
                    device="cpu",
                    sms=0,
                    cores=c,
                    batch=batch,
                    seconds=float(estimate.median_s),
                    memory_bytes=0,
                    ram_bytes=ram,
                    source=str(estimate.source),
                    env_ram_bytes=each,
                )
            )
    return front(found)


def device_options(
    clock: Clock, demand: Demand, node: NodeClass, scale: Scale, pins: Sequence[Pin]
) -> tuple[Option, ...]:
    """Options of a stage on the class's device: quota by batch. Empty where it cannot run there."""
    device, stage = node.device, demand.stage
    time = None if device is None else clock.of(stage, device)
    if time is None or device is None:
        return ()
    cores = _host_cores(time.points, stage.name, pins)
    quotas = np.array(device.quotas())
    if (pin := pinned(tuple(pins), stage.name, "sms")) is not None:
        quotas = quotas[quotas == int(pin)]
        if not len(quotas):
            raise _not_granted(device, stage.name, int(pin))
    elif demand.learns and scale.whole_learner:
        quotas = quotas[-1:]
    batches = np.array(_batches(demand, time.points, scale, pins))
    estimate = ask(time, quotas[:, None], cores, batches[None, :])
    if estimate is None:  # the profile refuses some place: only what was measured is left
        return ()
    seconds = estimate.median_s
    rates = batches[None, :] / seconds
    worth_it = _gains(rates[-1])
    steps = [_gains(rates[:, b]) for b in range(len(batches))]
    ram = host_ram(time.points, stage.work)
    found: list[Option] = []
    for b in np.flatnonzero(worth_it):
        batch = int(batches[b])
        resident = batch * scale.groups if demand.holds else 0
        memory = device_bytes(
            time, device, cores, max(batch, resident), stage.work,
            shards=scale.shards if demand.learns else 1,
        )  # fmt: skip
        if memory > device.memory_bytes:
            continue
        for q in np.flatnonzero(steps[b]):
            found.append(
                Option(
                    stage=stage.name,
                    device=device.name,
                    sms=int(quotas[q]),
                    cores=cores,
                    batch=batch,
                    seconds=float(seconds[q, b]),
                    memory_bytes=memory,
                    ram_bytes=ram,
                    source=str(estimate.source[q, b]),
                    resident=resident,
                )
            )
    return tuple(found)


def _gains(rates: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of these, in order, are more than `WORTH` faster than the last one kept."""
    kept = np.zeros(len(rates), bool)
    last = 0.0
    for i, rate in enumerate(rates):
        if rate > last * (1 + WORTH):
            kept[i], last = True, rate
    return kept


def _host_cores(points: Sequence[Point], stage: str, pins: Sequence[Pin]) -> float:
    """Host cores of one replica: as pinned, as measured, else one."""
    pin = pinned(tuple(pins), stage, "cores")
    return pin if pin is not None else max((point.cores for point in points), default=1.0)


def host_ram(points: Sequence[Point], work: Work | None) -> int:
    """Host memory of one replica on a device."""
    measured = max((point.ram_bytes for point in points), default=0)
    return measured or int(work.ram_bytes if work is not None else 0)


def device_bytes(
    time: StageTime,
    device: DeviceKind,
    cores: float,
    batch: int,
    work: Work | None,
    *,
    shards: int = 1,
) -> int:
    """What one replica holds on its device: as profiled (by arithmetic where a profile states no
    memory), less the state that other ranks hold, and the process's own context."""
    estimate = ask(time, device.sms, cores, batch)
    assert estimate is not None
    memory = int(estimate.bytes)
    if work is not None and any(point.bytes == 0 for point in time.points):
        memory = max(memory, int(roofline.memory(work, device, batch)))
    if work is not None:
        memory -= int(work.state_bytes * (1 - 1 / shards))
    return memory + CONTEXT_BYTES


def _not_granted(device: DeviceKind, stage: str, sms: int) -> PlanError:
    near = sorted(device.quotas(), key=lambda quota: (abs(quota - sms), quota))[:3]
    return PlanError(
        "pin-off-grid",
        f"{device.name} grants no quota of {sms} SMs",
        where=f"--pin {stage}.sms={sms}",
        hint=f"near ones are {', '.join(map(str, sorted(near)))}",
    )


def front(options: Sequence[Option]) -> tuple[Option, ...]:
    """The Pareto front: nothing kept is matched or beaten in everything by another."""
    if not options:
        return ()
    table = np.array(
        [
            (-o.rate, o.batch, o.sms, o.cores, o.cores / o.rate, o.memory_bytes, o.ram_bytes)
            for o in options
        ]
    )
    residents = np.array([o.resident for o in options])
    kept = [i for i in range(len(options)) if not _beaten(table, residents, i)]
    return tuple(options[i] for i in kept)


def _beaten(table: NDArray[np.float64], residents: NDArray[np.int64], i: int) -> bool:
    no_worse = (table <= table[i]).all(axis=1) & (residents == residents[i])
    better = (table < table[i]).any(axis=1)
    earlier_twin = ~better & (np.arange(len(table)) < i)
    return bool((no_worse & (better | earlier_twin)).any())


def _batches(
    demand: Demand, points: Sequence[Point], scale: Scale, pins: Sequence[Pin]
) -> list[int]:
    """Batches to consider. A rank of the learner takes a share of the update; others batch
    environments, as many as there may be in one of the groups that take turns."""
    if (pin := pinned(tuple(pins), demand.name, "batch")) is not None:
        return [int(pin)]
    if demand.learns:
        parts = {1, 3, *(2**i for i in range(scale.ranks.bit_length()))}
        parts |= {3 * 2**i for i in range(scale.ranks.bit_length())}
        return sorted({scale.update // n for n in parts if n <= min(scale.ranks, scale.update)})
    limit = max(1, scale.environments[1] // scale.groups)
    wanted = {2**i for i in range(limit.bit_length())}
    for count in set(scale.environments):
        wanted |= {count // (scale.groups * n) for n in range(1, 9)}
    wanted |= {point.batch for point in points}
    return sorted(b for b in wanted if 1 <= b <= limit)


def ram_of_environments(points: Sequence[Point], work: Work | None) -> tuple[int, float]:
    """Bytes of a simulating process without environments, and of each environment in it.

    From the points with the fewest and the most environments; one point alone says nothing of the
    slope, so all of it is the process's. Without points, by the declared work.
    """
    if not points:
        assert work is not None
        return int(work.ram_bytes + work.weight_bytes + work.scratch_bytes), work.activation_bytes
    few = min(points, key=lambda p: (p.batch, p.bytes))
    many = max(points, key=lambda p: (p.batch, p.bytes))
    if few.batch == many.batch:
        return many.bytes, 0.0
    each = max(0.0, (many.bytes - few.bytes) / (many.batch - few.batch))
    return max(0, math.floor(few.bytes - each * few.batch)), each
