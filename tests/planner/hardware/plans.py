"""Plans written by hand, for tests of what is made from a plan."""

from __future__ import annotations

from ebrl.frontend.program import Program, StageProgram
from ebrl.planner.cluster import parse
from ebrl.planner.plan import (
    Buffers,
    Environments,
    Made,
    Plan,
    Prediction,
    Replica,
    Source,
    StagePlan,
)


def stage(name: str, kind: str, *replicas: Replica, source: Source = "estimated") -> StagePlan:
    return StagePlan(
        name=name,
        kind=kind,
        batch=8,
        seconds=0.1,
        items_per_s=80.0,
        utilisation=1.0,
        source=source,
        replicas=replicas,
    )


def replica(index: int, node: str, device: int | None, sms: int = 0, start: int = 0) -> Replica:
    return Replica(
        index=index, node=node, device=device, sms=sms, sm_start=start, cores=2.0, batch=8
    )


def plan(cluster: str, *stages: StagePlan) -> Plan:
    return Plan(
        program=Program(
            name="Pi 0.5 on LIBERO",
            path="/work/graphs/pi05_libero.py",
            sha256="0" * 64,
            stages=tuple(
                StageProgram(
                    name=each.name, kind=each.kind, where="", rate="1", runs_on=("gpu",), type=""
                )
                for each in stages
            ),
            edges=(),
            environment=None,
            training=None,
        ),
        program_sha256="0" * 64,
        cluster=parse(cluster),
        cluster_sha256="0" * 64,
        profile=(),
        profile_sha256="0" * 64,
        schedule="asynchronous",
        max_staleness=1,
        stages=stages,
        environments=Environments(count=64, groups=2),
        buffers=Buffers(
            segments=64,
            horizon=8,
            segment_bytes=2**20,
            weights_bytes=2**30,
            slab_bytes=3 * 2**30,
        ),
        prediction=Prediction(
            throughput_env_steps_per_s=1234.5,
            bound_env_steps_per_s=1234.5,
            gap=0.0,
            bottleneck="train",
            why="it is busy all the time",
        ),
        made=Made(version="0", solver="", solve_s=0.0, total_s=0.0, created_at=""),
    )


def one_node() -> Plan:
    """Two of eight H100 carry stages: one shared by three processes, one alone."""
    return plan(
        "h100x8",
        stage("simulate", "simulate", replica(0, "h100x8-0", 0, 32), replica(1, "h100x8-0", None)),
        stage("generate", "generate", replica(0, "h100x8-0", 0, 64, 32)),
        stage("train", "train", replica(0, "h100x8-0", 0, 36, 96), replica(1, "h100x8-0", 1, 132)),
    )


def many_nodes() -> Plan:
    """Both H100 nodes, one of two nodes of cores, none of the L40S."""
    return plan(
        "2*(h100x2)+l40sx4+2*(cpu64)",
        stage("simulate", "simulate", replica(0, "cpu64-1", None)),
        stage(
            "generate",
            "generate",
            replica(0, "h100x2-0", 0, 64),
            replica(1, "h100x2-1", 1, 64),
        ),
        stage(
            "train",
            "train",
            replica(0, "h100x2-0", 0, 68, 64),
            replica(1, "h100x2-1", 1, 68, 64),
        ),
    )


def cores_alone() -> Plan:
    return plan("cpu16", stage("simulate", "simulate", replica(0, "cpu16-0", None)))
