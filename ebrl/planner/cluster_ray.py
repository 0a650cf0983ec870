"""The resources of a running Ray cluster as a `Cluster`.

Invariant: Ray is imported inside `running` alone, so that planning without it never pays for it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ebrl.errors import PlanError
from ebrl.planner import devices
from ebrl.planner.cluster import CPU_NETWORK_BYTES_PER_S, gather
from ebrl.planner.hardware import Cluster, NodeClass

# Ray's names of accelerators (ray.util.accelerators) that the catalogue calls otherwise.
ACCELERATORS = {
    "a100-80g": "a100",
    "a100-40g": "a100-40",
    "rtx-a6000": "a6000",
    "geforce-rtx-3090": "rtx3090",
    "geforce-rtx-4090": "rtx4090",
    "geforce-rtx-4090-d": "rtx4090d",
    "geforce-rtx-5090": "rtx5090",
}


def running() -> Cluster:
    """Ask the Ray cluster that this machine belongs to. Raises PlanError where there is none."""
    try:
        import ray
    except ImportError as error:
        raise PlanError(
            "ray-missing",
            "--cluster ray needs Ray, which is not installed",
            where="--cluster",
            hint="pip install 'ebrl[ray]', or describe the cluster, for example 4*(a100x8)",
        ) from error
    began = not ray.is_initialized()
    try:
        if began:
            ray.init(address="auto", logging_level=logging.ERROR, log_to_driver=False)
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        return of(nodes)
    except ConnectionError as error:
        raise PlanError(
            "ray-not-running",
            "no running Ray cluster was found",
            where="--cluster",
            hint="start one with `ray start --head`, or set RAY_ADDRESS",
        ) from error
    finally:
        if began and ray.is_initialized():
            ray.shutdown()


def of(nodes: Iterable[Mapping[str, Any]]) -> Cluster:
    """The cluster of these nodes, as `ray.nodes()` lists them. Dead ones do not count."""
    found = [_node(node) for node in nodes if node.get("Alive")]
    if not found:
        raise PlanError("ray-empty", "the Ray cluster has no live node", where="--cluster ray")
    found.sort(key=lambda node: node.name)
    return Cluster(text="ray", nodes=gather(found))


def _node(node: Mapping[str, Any]) -> NodeClass:
    resources: Mapping[str, float] = node.get("Resources", {})
    where = f"Ray node {node.get('NodeManagerHostname', '?')}"
    cores = int(resources.get("CPU", 0))
    if cores < 1:
        raise PlanError(
            "ray-no-cores",
            "it offers no CPU, so nothing can run there",
            where=where,
            hint="start it with `ray start --num-cpus N`",
        )
    count = int(resources.get("GPU", 0))
    entry = _entry(resources, where) if count else None
    return NodeClass(
        name=f"{entry.name}x{count}" if entry else f"cpu{cores}",
        count=1,
        cores=cores,
        # What Ray calls memory is what it would schedule; its object store is the node's too.
        ram_bytes=int(resources.get("memory", 0) + resources.get("object_store_memory", 0)),
        device=entry.kind if entry else None,
        devices=count,
        network_bytes_per_s=(
            entry.network_bytes_per_s(count) if entry else CPU_NETWORK_BYTES_PER_S
        ),
    )


def _entry(resources: Mapping[str, float], where: str) -> devices.Entry:
    names = [
        key.removeprefix("accelerator_type:").lower()
        for key in resources
        if key.startswith("accelerator_type:")
    ]
    for name in names:
        plain = re.sub(r"^(nvidia|tesla)-", "", name)
        found = devices.lookup(ACCELERATORS.get(plain, plain))
        if found is not None:
            return found
    told = f"an accelerator {names[0]!r}" if names else "GPUs of a kind that Ray does not tell"
    raise PlanError(
        "ray-device",
        f"it has {told}, which the catalogue does not know",
        where=where,
        hint="describe the cluster in a YAML file instead, with the device's figures",
    )
