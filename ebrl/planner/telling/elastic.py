"""The smallest change that makes an infeasible problem feasible, one kind of change at a time.

Each capacity, bound and pin has a name and a ladder of values; the least step of a ladder at
which a plan exists is what is told. Invariant: what is offered was solved, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ebrl.errors import PlanError
from ebrl.frontend.program import Program
from ebrl.planner.hardware import Cluster, NodeClass
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.model.spaces import staleness
from ebrl.planner.profile import Point

Inputs = tuple[Program, Cluster, CompileOptions]
GB = 1_000_000_000
MEMORY = (1, 2, 4, 8, 16, 32, 64, 128)  # GB more
TIMES = (1, 2, 4, 8, 16, 32)


def relaxations(
    program: Program, cluster: Cluster, points: tuple[Point, ...], options: CompileOptions
) -> list[str]:
    """What would make a plan possible, each by itself, in words; empty where nothing does alone."""
    inputs = (program, cluster, options)
    return [text for ladder in _ladders(inputs) if (text := _least(ladder, points)) is not None]


Step = tuple[str, Inputs]


def _least(ladder: list[Step], points: tuple[Point, ...]) -> str | None:
    """The first step of a ladder at which a plan exists, by bisection."""
    low, high = 0, len(ladder) - 1
    if high < 0 or not feasible(ladder[high][1], points):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if feasible(ladder[middle][1], points) else (middle + 1, high)
    return ladder[low][0]


def feasible(inputs: Inputs, points: tuple[Point, ...]) -> bool:
    """Is there any plan, whatever its throughput (but what was asked for at least)?"""
    from ebrl.planner.portfolio import search_all

    program, cluster, options = inputs
    rough = msgspec.structs.replace(options, resolution=0.05, alternatives=False)
    try:
        found, _ = search_all(program, cluster, points, rough)
    except PlanError:
        return False
    return found is not None


def _ladders(inputs: Inputs) -> Iterator[list[Step]]:
    program, cluster, options = inputs
    if any(node.device is not None for node in cluster.nodes):
        yield [
            (f"{more} GB more memory on each GPU", _with(inputs, _memory(more))) for more in MEMORY
        ]
        yield [
            (f"{more} more GPU{'s' if more > 1 else ''} a node", _with(inputs, _devices(more)))
            for more in TIMES
        ]
    yield [(f"{more} GB more RAM a node", _with(inputs, _ram(more))) for more in MEMORY]
    yield [(f"{8 * more} more cores a node", _with(inputs, _cores(8 * more))) for more in TIMES]
    if all(node.count * more < 10_000 for node in cluster.nodes for more in TIMES):
        yield [(f"{more + 1} times the nodes", _with(inputs, _nodes(more + 1))) for more in TIMES]
    eta = staleness(program, options)
    yield [
        (
            f"max_staleness {eta + more}",
            (program, cluster, msgspec.structs.replace(options, max_staleness=eta + more)),
        )
        for more in (1, 2, 4, 8)
    ]
    environment = program.environment
    if environment is not None and environment.min_count > 1:
        counts = sorted({environment.min_count // 2**i for i in range(1, 12)} - {0}, reverse=True)
        yield [
            (
                f"envs=({fewer}, {environment.max_count})",
                (
                    msgspec.structs.replace(
                        program,
                        environment=msgspec.structs.replace(environment, min_count=fewer),
                    ),
                    cluster,
                    options,
                ),
            )
            for fewer in counts
        ]
    for pin in options.pins:
        rest = tuple(each for each in options.pins if each != pin)
        yield [
            (
                f"no pin on {pin.stage}.{pin.key}",
                (program, cluster, msgspec.structs.replace(options, pins=rest)),
            )
        ]


Change = Callable[[NodeClass], NodeClass]


def _with(inputs: Inputs, change: Change) -> Inputs:
    program, cluster, options = inputs
    nodes = tuple(change(node) for node in cluster.nodes)
    return program, msgspec.structs.replace(cluster, nodes=nodes), options


def _memory(more: int) -> Change:
    def change(node: NodeClass) -> NodeClass:
        if node.device is None:
            return node
        size = node.device.memory_bytes + more * GB
        device = msgspec.structs.replace(node.device, memory_bytes=size)
        return msgspec.structs.replace(node, device=device)

    return change


def _devices(more: int) -> Change:
    def change(node: NodeClass) -> NodeClass:
        if node.device is None:
            return node
        return msgspec.structs.replace(node, devices=node.devices + more)

    return change


def _ram(more: int) -> Change:
    return lambda node: msgspec.structs.replace(node, ram_bytes=node.ram_bytes + more * GB)


def _cores(more: int) -> Change:
    return lambda node: msgspec.structs.replace(node, cores=node.cores + more, numa=())


def _nodes(times: int) -> Change:
    return lambda node: msgspec.structs.replace(node, count=node.count * times)
