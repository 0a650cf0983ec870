"""Programs, clusters and points of known arithmetic, for tests of the model."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ebrl.frontend.program import (
    ActionProgram,
    EdgeProgram,
    EnvironmentProgram,
    Hardware,
    Program,
    StageProgram,
    TrainingProgram,
    Work,
)
from ebrl.frontend.spec import Tensor
from ebrl.planner.hardware import Cluster, DeviceKind, NodeClass
from ebrl.planner.profile import Point

GB = 10**9


def pipeline(
    *,
    envs: tuple[int, int] = (32, 32),
    horizon: int = 16,
    batch: int = 1024,
    chunk: int = 1,
    max_staleness: int = 1,
    epochs: int = 1,
    minibatch: int | None = None,
    runs_on: dict[str, tuple[Hardware, ...]] | None = None,
    work: dict[str, Work] | None = None,
    names: tuple[str, str, str] = ("simulate", "generate", "train"),
    reward: Fraction | None = None,
) -> Program:
    """simulate ⇄ generate → train, and a reward model that fires `reward` times a step if asked."""
    runs_on = runs_on or {}
    work = work or {}
    sim, gen, train = names

    def stage(name: str, kind: str, rate: Fraction, items: int = 1) -> StageProgram:
        return StageProgram(
            name=name,
            kind=kind,
            where="graph.py:1",
            rate=str(rate),
            runs_on=runs_on.get(kind, ("cpu", "gpu")),
            type=f"stages.{kind}",
            items_per_firing=items,
            spans_devices=kind == "train",
            work=work.get(kind),
            profile_key=kind,
        )

    def edge(source: str, target: str, *, keep: str = "all", initial: int = 0) -> EdgeProgram:
        return EdgeProgram(
            source=source,
            target=target,
            where="graph.py:2",
            spec={"": Tensor("float32", (4,))},
            produce="1",
            consume="1",
            initial=initial,
            keep="latest" if keep == "latest" else "all",
        )

    stages = [
        stage(sim, "simulate", Fraction(1)),
        stage(gen, "generate", Fraction(1, chunk)),
        stage(train, "train", Fraction(1, batch), batch),
    ]
    edges = [
        edge(f"{sim}.obs", f"{gen}.obs"),
        edge(f"{gen}.action", f"{sim}.action", initial=envs[0]),
        edge(f"{sim}.transition", f"{train}.transition"),
        edge(f"{gen}.behaviour", f"{train}.behaviour"),
        edge(f"{train}.weights", f"{gen}.weights", keep="latest"),
    ]
    if reward is not None:
        stages.append(stage("reward", "reward", reward))
        edges.append(edge(f"{sim}.transition", "reward.frames"))
    return Program(
        name="pipeline",
        path="graph.py",
        sha256="0" * 64,
        stages=tuple(stages),
        edges=tuple(edges),
        environment=EnvironmentProgram(
            obs={"": Tensor("float32", (4,))},
            action=ActionProgram(kind="discrete", dtype="int64", n=2, chunk=chunk),
            min_count=envs[0],
            max_count=envs[1],
        ),
        training=TrainingProgram(
            horizon=horizon,
            batch=batch,
            max_staleness=max_staleness,
            epochs=epochs,
            minibatch=minibatch,
        ),
    )


def point(
    stage: str,
    batch: int,
    seconds: float,
    *,
    device: str = "cpu",
    sms: int = 0,
    cores: float = 1.0,
    size: int = 100_000_000,
) -> Point:
    return Point(
        stage=stage,
        device=device,
        sms=sms,
        cores=cores,
        batch=batch,
        median_s=seconds,
        p95_s=seconds,
        bytes=size,
        source="measured",
        origin="test",
    )


def on_cores(
    simulate: float = 1e-3,
    generate: Sequence[tuple[int, float]] = ((1, 2e-4), (8, 3e-4), (32, 6e-4)),
    train: float = 0.2,
    batch: int = 1024,
) -> tuple[Point, ...]:
    """One core each: seconds a step, a batch of decisions, an update."""
    return (
        point("simulate", 1, simulate),
        point("simulate", 32, 32 * simulate, size=132_000_000),
        *(point("generate", b, t) for b, t in generate),
        point("train", batch // 16, train / 14),
        point("train", batch, train),
    )


def cpus(count: int = 1, cores: int = 2, *, local: bool = False, ram: int = 64 * GB) -> Cluster:
    node = NodeClass(
        name="local" if local else f"cpu{cores}", count=count, cores=cores, ram_bytes=ram
    )
    return Cluster(text="local" if local else f"{count}*(cpu{cores})", nodes=(node,), local=local)


def device(name: str = "dev", *, sms: int = 4, step: int = 1, memory: int = 80 * GB) -> DeviceKind:
    return DeviceKind(
        name=name,
        sms=sms,
        sm_min=1,
        sm_step=step,
        memory_bytes=memory,
        memory_bytes_per_s=1e12,
        bf16_flops=1e14,
        fp32_flops=1e13,
        link_bytes_per_s=1e11,
    )
