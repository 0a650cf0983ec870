"""What an update costs beyond its arithmetic, as the plan reckons it: all-reduces, publication."""

from __future__ import annotations

from ebrl.planner.model.learning import HOST_BYTES_PER_S, modes, published_bytes
from ebrl.planner.plan import Plan


def overhead(plan: Plan) -> tuple[float, float]:
    """Seconds of the all-reduces, and of the publication, of one update."""
    nodes = sum(node.count for node in plan.cluster.nodes)
    network = min(node.network_bytes_per_s for node in plan.cluster.nodes)
    publish = published_bytes(plan.program) / (network if nodes > 1 else HOST_BYTES_PER_S)
    for stage in plan.program.of_kind("train"):
        replicas = plan.stage(stage.name).replicas
        hardware = "cpu" if all(each.device is None for each in replicas) else "gpu"
        span = "one" if len(replicas) == 1 else "node"
        span = "cluster" if len({each.node for each in replicas}) > 1 else span
        for mode in modes(plan.program, plan.cluster, stage):
            if (mode.hardware, mode.span) == (hardware, span):
                return max(0.0, mode.overhead_s - publish), publish
    return 0.0, publish
