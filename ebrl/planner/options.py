"""What a stage may be given: hardware, quota, batch, and what it then does and costs.

Invariant: an option is one replica. Its rate is `batch / seconds` while it is busy; everything that
depends on what shares its device or its cores is the model's business, not the option's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebrl.errors import PlanError
from ebrl.planner.clock import Clock, ask, core_batches
from ebrl.planner.demand import Demand
from ebrl.planner.hardware import DeviceKind, NodeClass
from ebrl.planner.plan import Pin
from ebrl.planner.profile import Point
from ebrl.planner.request import pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What the number of environments and the update allow a batch to be."""

    environments: tuple[int, int]
    groups: int
    update: int  # items of one update
    shares: int  # ranks that an update may be split over


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
    batches = _batches_on_cores(demand, points, scale, pins)
    found: list[Option] = []
    for c in cores:
        for batch in batches:
            estimate = ask(time, 0, c, batch)
            if estimate is None:
                continue
            ram, each = int(estimate.bytes), 0.0
            if demand.holds and points:
                ram, each = ram_of_environments(points)
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


def _beaten(table: np.ndarray, residents: np.ndarray, i: int) -> bool:  # type: ignore[type-arg]
    no_worse = (table <= table[i]).all(axis=1) & (residents == residents[i])
    better = (table < table[i]).any(axis=1)
    earlier_twin = ~better & (np.arange(len(table)) < i)
    return bool((no_worse & (better | earlier_twin)).any())


def _batches_on_cores(
    demand: Demand, points: Sequence[Point], scale: Scale, pins: Sequence[Pin]
) -> list[int]:
    """Simulators step environments one by one; the learner takes its share of the update; others batch."""
    if (pin := pinned(tuple(pins), demand.name, "batch")) is not None:
        return [int(pin)]
    if demand.holds:
        return [1]
    if demand.learns:
        shares = {2**i for i in range(int(math.log2(max(scale.shares, 1))) + 1)}
        return sorted({max(1, math.ceil(scale.update / n)) for n in shares})
    limit = max(1, scale.environments[1] // scale.groups)
    wanted = [2**i for i in range(limit.bit_length())]
    for count in set(scale.environments):
        wanted += [count // (scale.groups * n) for n in range(1, 9)]
    return [b for b in core_batches(points, wanted) if b <= limit]


def ram_of_environments(points: Sequence[Point]) -> tuple[int, float]:
    """Bytes of a simulating process without environments, and of each environment in it.

    From the points with the fewest and the most environments; one point alone says nothing of the
    slope, so all of it is the process's.
    """
    few = min(points, key=lambda p: (p.batch, p.bytes))
    many = max(points, key=lambda p: (p.batch, p.bytes))
    if few.batch == many.batch:
        return many.bytes, 0.0
    each = max(0.0, (many.bytes - few.bytes) / (many.batch - few.batch))
    return max(0, math.floor(few.bytes - each * few.batch)), each


def impossible(demand: Demand, kinds: Sequence[DeviceKind | None], where: str) -> PlanError:
    """No class of the cluster can run the stage, and why."""
    places = ", ".join("cores" if kind is None else kind.name for kind in kinds)
    return PlanError(
        "profile-missing",
        f"nothing is known about stage {demand.name!r} on {places}: it runs on "
        f"{' or '.join(demand.stage.runs_on)}, the profile has no point of it there, and it declares "
        "no work to estimate by",
        where=where,
        hint=f"measure it (ebrl profile), or give work() to {demand.stage.type}",
    )
