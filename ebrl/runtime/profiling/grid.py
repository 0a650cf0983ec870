"""Which processes measure a program on this machine, and the places that can be measured: quotas by
batches of each stage, and how a tally of a place becomes points of a profile.

Invariant: the load beside a measurement is that of a run: one simulator a core (at most
`SIMULATORS`), one policy, one learner.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ebrl.planner.hardware import Cluster
from ebrl.planner.plan import Program
from ebrl.planner.profile import CPU, Point
from ebrl.runtime.boot import Role
from ebrl.runtime.profiling.asking import Ready, Request
from ebrl.runtime.profiling.tally import Place, Tally

SIMULATORS = 4  # simulators measured at the same time, at most
MOST_SIMULATED = 32  # environments in one process
MOST_ANSWERED = 256  # environments answered at once
QUOTAS = 8  # of a device, to begin with


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where is measured: this machine's cores, and one kind of device if it has one."""

    cores: int
    device: str = CPU  # the catalogue's name
    quotas: tuple[int, ...] = ()  # SMs on the device's grid
    origin: str = ""

    @property
    def torch_device(self) -> str:
        return "cpu" if self.device == CPU else "cuda:0"


def site(cluster: Cluster) -> Site:
    """This machine, as the cluster `local` describes it."""
    node = cluster.nodes[0]
    cores = len(os.sched_getaffinity(0))
    if node.device is None:
        return Site(cores=cores, origin=f"{processor()}, {cores} cores busy")
    grid = node.device.quotas()
    chosen = sorted({grid[round(i * (len(grid) - 1) / (QUOTAS - 1))] for i in range(QUOTAS)})
    return Site(
        cores=cores,
        device=node.device.name,
        quotas=tuple(chosen),
        origin=f"this {node.device.name}",
    )


def requests(
    program: Program, graph: Path, here: Site, *, patience_s: float
) -> tuple[Request, ...]:
    """One a process: simulators first."""
    assert program.environment is not None
    most = program.environment.max_count
    simulators = min(here.cores, SIMULATORS)
    roles: tuple[tuple[Role, int, int], ...] = (
        ("simulate", simulators, min(MOST_SIMULATED, max(1, most // simulators))),
        ("generate", 1, min(MOST_ANSWERED, most)),
        ("train", 1, 1),
    )
    found = []
    for role, copies, environments in roles:
        stage = program.of_kind(role)[0]
        request = Request(
            role=role,
            stage=stage.name,
            policy_stage=program.of_kind("generate")[0].name,
            program=program,
            graph=str(graph),
            graph_sha256=program.sha256,
            environments=environments,
            patience_s=patience_s,
            device=here.torch_device if "gpu" in stage.runs_on and role != "simulate" else "cpu",
        )
        found += [request] * copies
    return tuple(found)


def batches(request: Request) -> tuple[int, ...]:
    """Powers of two up to the largest batch of answers; a whole update; one environment step."""
    program = request.program
    if request.role == "train":
        assert program.training is not None
        return (program.training.batch,)
    if request.role == "simulate":
        return (1,)
    most = request.environments
    return tuple(sorted({*(2**i for i in range(most.bit_length())), most}))


def places(request: Request, here: Site) -> tuple[Place, ...]:
    """Every place of a stage: on cores by threads (powers of two, and all), on a device by SMs."""
    sizes = batches(request)
    if request.device != "cpu":
        return tuple(Place(request.stage, sms, 1, b) for sms in here.quotas for b in sizes)
    threads = {1}
    if request.role != "simulate":
        threads |= {*(2**i for i in range(here.cores.bit_length())), here.cores}
    return tuple(
        Place(request.stage, 0, c, b) for c in sorted(threads) if c <= here.cores for b in sizes
    )


def points(
    tallies: Mapping[Place, Tally],
    here: Site,
    ready: Mapping[str, Ready],
    notes: Mapping[Place, str] | None = None,
    *,
    origin: str,
) -> tuple[Point, ...]:
    """Points of a profile. A simulator's are for one environment and for as many as were built in
    one process, which is how the planner learns what each of them holds."""
    found = []
    for place, tally in sorted(tallies.items()):
        if not tally.slices:
            continue
        built = ready[place.stage]
        sizes = [(1, tally.bytes)]
        if built.environments:
            sizes = [(1, built.bytes[0]), (built.environments, max(built.bytes[1], tally.bytes))]
        for count, held in dict(sizes).items():
            found.append(
                Point(
                    stage=place.stage,
                    device=here.device if place.sms else CPU,
                    sms=place.sms,
                    cores=float(place.cores),
                    batch=place.batch * count,
                    median_s=tally.median_s * count,
                    p95_s=tally.p95_s * count,
                    bytes=tally.device_bytes if place.sms else held,
                    ram_bytes=held if place.sms else 0,
                    source="measured",
                    origin=origin,
                    samples=tally.timings,
                    note=(notes or {}).get(place, ""),
                )
            )
    return tuple(found)


def built(benches: Iterable[tuple[Request, Ready]]) -> dict[str, Ready]:
    """By stage, the leanest of its processes (they are built alike)."""
    found: dict[str, Ready] = {}
    for request, ready in benches:
        before = found.get(request.stage)
        if before is None or ready.environments < before.environments:
            found[request.stage] = ready
    return found


def processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
