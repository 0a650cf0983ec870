"""The same graph and profile on other hardware or under other bounds: plan again and compare.

Invariant: only what was asked for changes; everything else comes from the plan.
"""

from __future__ import annotations

import msgspec

from ebrl.errors import PlanError
from ebrl.frontend.program import Program
from ebrl.planner.compile import compile
from ebrl.planner.hardware import Cluster, NodeClass
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.plan import Plan

GB = 1_000_000_000


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Differences to a plan's inputs. GPUs and cores are added to one node of the first class that
    has any, memory to every device and node."""

    gpus: int = 0
    cores: int = 0
    memory_gb: float = 0.0
    ram_gb: float = 0.0
    environments: int = 0
    max_staleness: int | None = None
    cluster: Cluster | None = None


def options_of(plan: Plan) -> CompileOptions:
    """The options that a plan was made with."""
    return CompileOptions(
        pins=plan.pins,
        interference=tuple(each for each in plan.interference if each.source != "estimated"),
        max_staleness=plan.asked_staleness,
        objective=plan.objective,
        at_least=plan.at_least,
        alternatives=False,
    )


def changed(plan: Plan, change: Change) -> tuple[Program, Cluster, CompileOptions]:
    """The inputs, with the change."""
    cluster = change.cluster or plan.cluster
    if change.gpus:
        cluster = _on_one_node(cluster, gpus=change.gpus)
    if change.cores:
        cluster = _on_one_node(cluster, cores=change.cores)
    if change.memory_gb or change.ram_gb:
        nodes = tuple(_larger(node, change) for node in cluster.nodes)
        cluster = msgspec.structs.replace(cluster, nodes=nodes)
    program, options = plan.program, options_of(plan)
    if change.environments:
        program = _environments(program, change.environments)
    if change.max_staleness is not None:
        options = msgspec.structs.replace(options, max_staleness=change.max_staleness)
    return program, cluster, options


def what_if(plan: Plan, change: Change) -> Plan:
    """The plan for the changed inputs."""
    program, cluster, options = changed(plan, change)
    return compile(program, cluster, plan.profile, options=options)


def _on_one_node(cluster: Cluster, *, gpus: int = 0, cores: int = 0) -> Cluster:
    """One node of the first class that has what is changed gets more (or less) of it."""
    for k, node in enumerate(cluster.nodes):
        if gpus and node.device is None:
            continue
        if node.devices + gpus < 0 or node.cores + cores < 1:
            raise PlanError(
                "what-if-too-few",
                f"a node of {node.name} has {node.devices} GPUs and {node.cores} cores",
                where=f"--gpus {gpus:+d}" if gpus else f"--cores {cores:+d}",
            )
        more = msgspec.structs.replace(
            node,
            name=f"{node.name}{gpus or cores:+d}{'gpu' if gpus else 'core'}",
            count=1,
            devices=node.devices + gpus,
            cores=node.cores + cores,
            numa=() if cores else node.numa,
        )
        rest = (msgspec.structs.replace(node, count=node.count - 1),) if node.count > 1 else ()
        nodes = (*cluster.nodes[:k], *rest, more, *cluster.nodes[k + 1 :])
        return msgspec.structs.replace(cluster, nodes=nodes)
    raise PlanError(
        "what-if-no-device", f"{cluster.text} has no GPUs to change the number of", where="--gpus"
    )


def _larger(node: NodeClass, change: Change) -> NodeClass:
    device = node.device
    if device is not None:
        size = device.memory_bytes + int(change.memory_gb * GB)
        device = msgspec.structs.replace(device, memory_bytes=size)
    ram = node.ram_bytes + int(change.ram_gb * GB)
    return msgspec.structs.replace(node, device=device, ram_bytes=ram)


def _environments(program: Program, more: int) -> Program:
    environment = program.environment
    assert environment is not None
    fixed = environment.min_count == environment.max_count
    most = max(1, environment.max_count + more)
    return msgspec.structs.replace(
        program,
        environment=msgspec.structs.replace(
            environment, max_count=most, min_count=most if fixed else environment.min_count
        ),
    )
