"""Small programs, plans and bodies for the runtime's tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.frontend.program import (
    ActionProgram,
    EnvironmentProgram,
    Program,
    StageProgram,
    TrainingProgram,
)
from ebrl.frontend.spec import Tensor
from ebrl.planner import cluster, layout
from ebrl.planner.plan import (
    Buffers,
    Environments,
    Made,
    Plan,
    Prediction,
    Replica,
    StagePlan,
)
from ebrl.runtime.segments import Segments
from ebrl.runtime.slab import Slab
from ebrl.stages.protocols import Array, StepResult

GRAPHS = Path(__file__).parent / "graphs"


def program(
    *, horizon: int = 4, batch: int = 16, max_staleness: int = 1, chunk: int = 1
) -> Program:
    """Observations are one float64; actions one float32."""
    stages = tuple(
        StageProgram(name=kind, kind=kind, where="", rate="1/1", runs_on=("cpu",), type="")
        for kind in ("simulate", "generate", "train")
    )
    action = ActionProgram(kind="box", dtype="float32", shape=(1,), chunk=chunk)
    return Program(
        name="test",
        path="",
        sha256="",
        stages=stages,
        edges=(),
        environment=EnvironmentProgram(
            obs={"": Tensor("float64", (1,))}, action=action, min_count=1, max_count=8
        ),
        training=TrainingProgram(horizon=horizon, batch=batch, max_staleness=max_staleness),
    )


def pool(
    of: Program, *, environments: int, segments: int | None = None, weights_bytes: int = 0
) -> tuple[Slab, Segments]:
    """A slab and its segments; weights of version 0 are published."""
    assert of.training is not None
    eta = of.training.max_staleness
    count = segments or layout.segment_count(of, environments, eta)
    slab = Slab.create(
        layout.slab_layout(
            of, environments=environments, segments=count, workers=3, weights_bytes=weights_bytes
        )
    )
    return slab, Segments(slab, per_batch=layout.segments_per_batch(of), max_staleness=eta)


class Countdown:
    """An environment that counts its steps and ends after `length` of them.

    The observation is 1000·episode + step; the reward is the observation after the step.
    """

    def __init__(self, length: int, *, truncates: bool = False) -> None:
        self.length = length
        self.truncates = truncates
        self.episode = 0
        self.at = 0
        self.seeds: list[int | None] = []

    def reset(self, seed: int | None, obs: Mapping[str, Array]) -> None:
        self.seeds.append(seed)
        self.episode += 1
        self.at = 0
        obs[""][0] = self.value

    def step(self, action: Array, obs: Mapping[str, Array]) -> StepResult:
        del action
        self.at += 1
        obs[""][0] = self.value
        over = self.at == self.length
        return StepResult(
            self.value, over and not self.truncates, over and self.truncates, over or None
        )

    def close(self) -> None:
        self.closed = True

    @property
    def value(self) -> float:
        return 1000.0 * self.episode + self.at


class Echo:
    """A policy body that answers the observation's first number plus its weight."""

    noise_size = 1
    noise_kind: Literal["normal", "uniform"] = "normal"

    def __init__(self) -> None:
        self.weight = 0.0
        self.batches: list[int] = []

    def weights(self) -> dict[str, tuple[int, ...]]:
        return {"w": (1,)}

    def load_weights(self, flat: np.ndarray) -> None:
        self.weight = float(flat[0])

    def act(self, obs: Mapping[str, Array], noise: np.ndarray) -> tuple[Array, np.ndarray]:
        values = obs[""]
        self.batches.append(len(values))
        return values.astype(np.float32) + self.weight, noise[:, 0].copy()


def plan_of(
    graph: Path,
    *,
    simulators: int = 2,
    generators: int = 1,
    learners: int = 1,
    environments: int | None = None,
    max_staleness: int | None = None,
    groups: int = 2,
) -> Plan:
    """A plan for this machine, laid out by hand: every worker shares every core."""
    of = check(load_graph(graph))
    assert of.environment is not None
    assert of.training is not None
    here = cluster.parse("local")
    cores = tuple(range(here.nodes[0].cores))
    count = environments or of.environment.max_count
    eta = of.training.max_staleness if max_staleness is None else max_staleness

    def stage(kind: str, workers: int, batch: int, *, serves: bool = True) -> StagePlan:
        edges = [round(index * count / workers) for index in range(workers + 1)]
        return StagePlan(
            name=of.of_kind(kind)[0].name,
            kind=kind,
            batch=batch,
            seconds=1.0,
            items_per_s=1.0,
            utilisation=1.0,
            source="estimated",
            replicas=tuple(
                Replica(
                    index=index,
                    node="local",
                    cores=0.5,
                    core_set=cores,
                    batch=batch,
                    environments=(edges[index], edges[index + 1]) if serves else None,
                )
                for index in range(workers)
            ),
        )

    segments = layout.segment_count(of, count, eta)
    return Plan(
        program=of,
        program_sha256="",
        cluster=here,
        cluster_sha256=here.digest(),
        profile=(),
        profile_sha256="",
        schedule="asynchronous" if eta else "synchronous",
        max_staleness=eta,
        stages=(
            stage("simulate", simulators, 1),
            stage("generate", generators, count),
            stage("train", learners, of.training.batch, serves=False),
        ),
        environments=Environments(count=count, groups=groups),
        buffers=Buffers(
            segments=segments,
            horizon=of.training.horizon,
            segment_bytes=layout.segment_bytes(of),
            weights_bytes=0,
            slab_bytes=0,
        ),
        prediction=Prediction(
            throughput_env_steps_per_s=1.0,
            bound_env_steps_per_s=1.0,
            gap=0.0,
            bottleneck="simulate",
            why="",
        ),
        made=Made(version="", solver="", solve_s=0.0, total_s=0.0, created_at=""),
    )
