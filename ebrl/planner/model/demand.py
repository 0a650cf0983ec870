"""What one environment step asks of each stage: the graph as the planner's model sees it.

Invariant: the planner knows a stage by its rate, its place in the loop and its profile, never by
what it is; `simulate`, `generate` and `train` are only the usual names.
"""

from __future__ import annotations

import msgspec

from ebrl.errors import PlanError
from ebrl.frontend.program import Program, StageProgram, TrainingProgram


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """`items` of work an environment step asks of this stage.

    `loop`: part of the cycle that an environment goes round (its replicas stay inside one node);
    `learns`: its firings are updates that all its replicas share; `holds`: environments live in it.
    """

    stage: StageProgram
    items: float
    loop: bool
    learns: bool
    holds: bool

    @property
    def name(self) -> str:
        return self.stage.name


def demands(program: Program) -> tuple[Demand, ...]:
    """In the order of declaration."""
    loops = _loop(program)
    return tuple(
        Demand(
            stage=stage,
            items=float(stage.firings_per_env_step * stage.items_per_firing),
            loop=stage.name in loops,
            learns=stage.kind == "train",
            holds=stage.kind == "simulate",
        )
        for stage in program.stages
    )


def training(program: Program) -> TrainingProgram:
    """The learner's settings, or a PlanError: a pipeline that trains nothing has no staleness."""
    if program.training is None:
        raise PlanError(
            "no-learner",
            f"graph {program.name!r} has no stage that trains",
            where=program.path,
            hint="add one with graph.train(...)",
        )
    return program.training


def _loop(program: Program) -> frozenset[str]:
    """Stages on a cycle of edges that consume tokens (weights are read, not consumed)."""
    onward: dict[str, set[str]] = {stage.name: set() for stage in program.stages}
    for edge in program.edges:
        if edge.keep != "latest":
            onward[edge.source.split(".")[0]].add(edge.target.split(".")[0])
    return frozenset(name for name in onward if name in _reachable(onward, name))


def _reachable(onward: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(onward[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(onward[name])
    return seen
