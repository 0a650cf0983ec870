"""Plans for a machine that is not what it was: cores that are gone, devices that are slow.

The planner counts equal devices and knows no slow one, so there are two ways to it: leave the slow
devices out, or plan as if they were well, put on them what is least in the way of the loop, and
let the learner's ranks take shares in proportion to their speed. Who asks simulates both.
Invariant: every plan here is one that the planner made, its devices renumbered and its ranks'
shares moved; an update's shares add up as before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from ebrl.planner.hardware import Cluster, NodeClass
from ebrl.planner.plan import Plan, Replica

FEWEST_CORES = 8  # of a machine that plans without some; on smaller ones cores only become slower


def fewer_cores(cluster: Cluster, gone: float) -> Cluster:
    """Without the whole cores that are gone, spread over its nodes; the same where it is small."""
    nodes = sum(node.count for node in cluster.nodes)
    each = math.floor(gone / nodes + 0.5)
    if each < 1 or any(node.cores - each < FEWEST_CORES for node in cluster.nodes):
        return cluster
    return msgspec.structs.replace(
        cluster,
        text=f"{cluster.text}, {each * nodes} cores gone",
        nodes=tuple(_less(node, each) for node in cluster.nodes),
    )


def on_cores(cluster: Cluster, gone: float) -> float:
    """How much longer all takes that runs on cores alone, on a machine that is too small to plan
    without those that are gone."""
    if fewer_cores(cluster, gone) != cluster:
        return 1.0
    total = sum(node.cores * node.count for node in cluster.nodes)
    return total / max(0.25, total - gone)


def _less(node: NodeClass, cores: int) -> NodeClass:
    ids = sorted(core for domain in node.numa for core in domain)[: node.cores - cores]
    kept = frozenset(ids)
    numa = tuple(left for each in node.numa if (left := tuple(c for c in each if c in kept)))
    return msgspec.structs.replace(node, cores=node.cores - cores, numa=numa)


def without(cluster: Cluster, slow: Mapping[str, float]) -> Cluster | None:
    """The cluster less its slow devices; None where a class of several nodes has one."""
    nodes = []
    for node in cluster.nodes:
        here = [name for name in slow if name.rpartition("/")[0] in _names(cluster, node)]
        if here and (node.count > 1 or len(here) >= node.devices):
            return None
        nodes.append(msgspec.structs.replace(node, devices=node.devices - len(here)))
    return msgspec.structs.replace(cluster, nodes=tuple(nodes))


def renumbered(plan: Plan, cluster: Cluster, slow: Mapping[str, float]) -> Plan:
    """A plan for `without(cluster, slow)`, on the devices that are left."""

    def place(replica: Replica) -> Replica:
        if replica.device is None:
            return replica
        bad = {int(name.rpartition("/")[2]) for name in slow if _node(name) == replica.node}
        well = [d for d in range(replica.device + len(bad) + 1) if d not in bad]
        return msgspec.structs.replace(replica, device=well[replica.device])

    placed = _replicas(plan, place)
    return msgspec.structs.replace(placed, cluster=cluster, cluster_sha256=cluster.digest())


def rebalanced(plan: Plan, slow: Mapping[str, float], *, uneven: bool = True) -> Plan:
    """A plan that takes all devices for well, arranged for those that are not; `uneven`: with
    smaller shares of an update for ranks on slow ones."""
    for name in sorted(slow):
        plan = _swapped(plan, name)
    ranks = plan.of_kind("train")[0].replicas
    total = sum(rank.share for rank in ranks)
    if not total or not uneven:
        return plan
    wanted = [rank.share / slow.get(_device(rank), 1.0) for rank in ranks]
    scale = total / sum(wanted)
    shares = [math.floor(share * scale) for share in wanted]
    order = sorted(range(len(ranks)), key=lambda i: shares[i] - wanted[i] * scale)
    for index in order[: total - sum(shares)]:
        shares[index] += 1

    def share(replica: Replica) -> Replica:
        return msgspec.structs.replace(replica, share=shares[replica.index])

    return _replicas(plan, share, kind="train")


def _swapped(plan: Plan, name: str) -> Plan:
    """The slow device changes places with the one that does least for the loop, then least."""
    node, _, number = name.rpartition("/")
    loop: dict[int, float] = {}
    learner: dict[int, float] = {}
    classes = {n: each for each in plan.cluster.nodes for n in _names(plan.cluster, each)}
    for device in range(classes[node].devices):
        loop[device] = learner[device] = 0.0
    for stage in plan.stages:
        for replica in stage.replicas:
            if replica.node == node and replica.device is not None:
                (learner if stage.kind == "train" else loop)[replica.device] += replica.busy
    slow = int(number)
    # Ranks take smaller shares where they are slow: a device with nothing but a rank is the best,
    # an idle one better still.
    other = min(loop, key=lambda d: (round(loop[d], 6), round(learner[d], 6), d != slow, d))
    swap = {slow: other, other: slow}

    def place(replica: Replica) -> Replica:
        if replica.node != node or replica.device is None:
            return replica
        return msgspec.structs.replace(replica, device=swap.get(replica.device, replica.device))

    return _replicas(plan, place)


def _replicas(plan: Plan, change: object, kind: str | None = None) -> Plan:
    assert callable(change)
    return msgspec.structs.replace(
        plan,
        stages=tuple(
            stage
            if kind not in (None, stage.kind)
            else msgspec.structs.replace(stage, replicas=tuple(map(change, stage.replicas)))
            for stage in plan.stages
        ),
    )


def _names(cluster: Cluster, node: NodeClass) -> set[str]:
    return {"local"} if cluster.local else {f"{node.name}-{index}" for index in range(node.count)}


def _node(device: str) -> str:
    return device.rpartition("/")[0]


def _device(replica: Replica) -> str:
    return f"{replica.node}/{replica.device}"
