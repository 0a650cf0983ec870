"""Why there is no plan, in words: arithmetic first, then what would have to give."""

from __future__ import annotations

from collections.abc import Sequence

from ebrl.errors import InfeasibleError, PlanError
from ebrl.frontend.program import Program
from ebrl.planner.hardware import Cluster, DeviceKind
from ebrl.planner.model.clock import Clock
from ebrl.planner.model.demand import Demand, demands
from ebrl.planner.model.options import device_bytes, ram_of_environments
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.portfolio import throughput_bound
from ebrl.planner.profile import Point
from ebrl.planner.telling.elastic import relaxations
from ebrl.planner.units import write_bytes


def check_known(
    wanted: Sequence[Demand], cluster: Cluster, program: Program, points: tuple[Point, ...]
) -> None:
    """Every stage can run somewhere, and something is known about it there."""
    clock = Clock(program, points)
    kinds: list[DeviceKind | None] = [None]
    kinds += [node.device for node in cluster.nodes if node.device is not None]
    for demand in wanted:
        if all(clock.of(demand.stage, kind) is None for kind in kinds):
            raise _unknown(demand, kinds, cluster)


def _unknown(demand: Demand, kinds: Sequence[DeviceKind | None], cluster: Cluster) -> PlanError:
    stage = demand.stage
    if "cpu" not in stage.runs_on and len(kinds) == 1:
        return InfeasibleError(
            "no-device",
            f"stage {demand.name!r} runs on a GPU only, and {cluster.text} has none",
            where=stage.where,
            hint="plan for a cluster with GPUs, as in --cluster a100x8",
        )
    places = ", ".join("cores" if kind is None else kind.name for kind in kinds)
    return PlanError(
        "profile-missing",
        f"nothing is known about stage {demand.name!r} on {places}: it runs on "
        f"{' or '.join(stage.runs_on)}, the profile has no point of it there, and it declares no "
        "work to estimate by",
        where=stage.where,
        hint=f"measure it (ebrl profile), or give {stage.type} a work() to estimate by",
    )


def check_prices(cluster: Cluster, options: CompileOptions) -> None:
    """Cost can be minimised where every class of nodes has a price."""
    if options.objective == "cost":
        free = [node.name for node in cluster.nodes if node.price_per_hour is None]
        if free:
            raise PlanError(
                "price-missing",
                f"no price is known for {', '.join(free)}",
                where=cluster.text,
                hint="give price_per_hour for each node class in a cluster file (YAML)",
            )


def explain_infeasible(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> InfeasibleError:
    """Arithmetic that a reader can check; where each part fits alone, the smallest relaxations."""
    reasons = too_large(program, cluster, points)
    if reasons:
        return InfeasibleError(
            "too-large",
            "; ".join(reasons),
            where=program.path,
            hint=_ways_on(program, cluster, points, options),
        )
    what = f"no plan of {program.name!r} fits {cluster.text}"
    if options.at_least is not None:
        what = f"no plan of {program.name!r} on {cluster.text} reaches {options.at_least:g} steps/s"
        most = throughput_bound(program, cluster, points, options)
        what += f"; nothing can exceed {most:,.1f}"
    return InfeasibleError(
        "infeasible", what, where=program.path, hint=_ways_on(program, cluster, points, options)
    )


def too_large(program: Program, cluster: Cluster, points: tuple[Point, ...]) -> list[str]:
    """Stages that fit nowhere by themselves: what each needs at its smallest, and what there is."""
    clock = Clock(program, points)
    found = []
    for demand in demands(program):
        stage, needs = demand.stage, []
        if clock.of(stage, None) is not None:
            if any(n.ram_bytes >= _least_ram(clock, demand) for n in cluster.nodes):
                continue
            most = max(n.ram_bytes for n in cluster.nodes)
            needs.append(
                f"{write_bytes(_least_ram(clock, demand))} of RAM (a node has {write_bytes(most)})"
            )
        fits = False
        for node in cluster.nodes:
            time = None if node.device is None else clock.of(stage, node.device)
            if time is None or node.device is None or not node.devices:
                continue
            cores = max((point.cores for point in time.points), default=1.0)
            shards = min(64, node.count * node.devices) if demand.learns else 1
            needed = device_bytes(time, node.device, cores, 1, stage.work, shards=shards)
            fits = fits or needed <= node.device.memory_bytes
            needs.append(
                f"{write_bytes(needed)} of device memory (one {node.device.name} has "
                f"{write_bytes(node.device.memory_bytes)})"
            )
        if needs and not fits:
            spread = " even with its state spread over all ranks" if demand.learns else ""
            found.append(f"{stage.name} needs {' or '.join(needs)} at its smallest batch{spread}")
    found += [] if found else _too_large_together(program, cluster, clock)
    environments, ram = program.environment, sum(n.count * n.ram_bytes for n in cluster.nodes)
    for demand in demands(program):
        if not demand.holds or environments is None or clock.of(demand.stage, None) is None:
            continue
        _, each = ram_of_environments(clock.points_of(demand.stage, None), demand.stage.work)
        least = each * environments.min_count
        if "gpu" not in demand.stage.runs_on and least > ram:
            found.append(
                f"{environments.min_count} environments of {demand.name} take "
                f"{write_bytes(least)} of RAM, and all nodes together have {write_bytes(ram)}"
            )
    return found


def _too_large_together(program: Program, cluster: Cluster, clock: Clock) -> list[str]:
    """Stages that need devices, each at its smallest, against the memory of all devices."""
    (kind, *others) = {n.device for n in cluster.nodes if n.device is not None} or [None]
    count = sum(node.count * node.devices for node in cluster.nodes)
    if kind is None or others:
        return []
    least = {}
    for demand in demands(program):
        time = clock.of(demand.stage, kind)
        if time is None or clock.of(demand.stage, None) is not None:
            continue
        cores = max((point.cores for point in time.points), default=1.0)
        shards = min(64, count) if demand.learns else 1
        least[demand.name] = device_bytes(time, kind, cores, 1, demand.stage.work, shards=shards)
    total, there = sum(least.values()), count * kind.memory_bytes
    if total <= there:
        return []
    parts = " + ".join(f"{write_bytes(size)} {name}" for name, size in least.items())
    return [
        f"{parts} of device memory at the smallest batches make {write_bytes(total)}, and "
        f"{count} × {kind.name} {'has' if count == 1 else 'have'} {write_bytes(there)}"
    ]


def _least_ram(clock: Clock, demand: Demand) -> int:
    time = clock.of(demand.stage, None)
    assert time is not None
    if demand.holds:
        points = clock.points_of(demand.stage, None)
        process, each = ram_of_environments(points, demand.stage.work)
        return int(process + each)
    return int(time.seconds(0, 1.0, 1).bytes)


def _ways_on(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> str:
    """The smallest relaxations that fit, each by itself, by name."""
    found = relaxations(program, cluster, points, options)
    if not found:
        return (
            "larger hardware, a smaller batch or fewer environments; one change alone is not enough"
        )
    return "feasible with " + ", or ".join(found)
