"""How people divide cores by hand, as restrictions of the model: equal shares, and whole cores.

Invariant: the same options, times and rows as the plan's, and one row more for each stage, so what
comes out is never better than the plan's bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from ebrl.planner.model import milp, search
from ebrl.planner.model.learning import first_cuts, throughput
from ebrl.planner.model.milp import Built
from ebrl.planner.model.solver import solve
from ebrl.planner.model.space import Space

ROUNDS = 12
RESOLUTION, EFFORT = 1e-4, 200


def even(space: Space) -> float | None:
    """Every stage on an equal share of each node's cores; None where nothing fits."""
    stages = [demand.name for demand in space.demands if not _apart(space, demand.name)]
    return _reached(space, dict.fromkeys(stages, 1 / max(1, len(stages))))


def whole(space: Space) -> float | None:
    """Every core for one stage, in the best ratio; None where there are fewer cores than stages."""
    return _reached(space, None)


def _reached(space: Space, shares: Mapping[str, float] | None) -> float | None:
    """The best throughput with these shares of the cores, or with whole cores, as many as suit."""
    tangents = list(first_cuts(space.mode)) if space.mode else [search.ROLLOUT_ONLY]
    scale = search.scale_of(space)
    best = None
    for _ in range(ROUNDS):
        made = milp.build(space, tangents, scale)
        for k in range(len(space.classes)):
            _divide(made, k, shares)
        outcome = solve(made.model, relative_gap=RESOLUTION, node_limit=EFFORT)
        if not outcome.values:
            return best
        rollout = sum(outcome.values[column] for column in made.rollout) * scale
        learner = outcome.values[made.learner] * scale if made.learner >= 0 else 0.0
        best = throughput(space.schedule, space.mode, rollout, learner)
        more = search.tangents_of(made, outcome, RESOLUTION)
        if not more:
            break
        tangents += more
    return best or None


def _divide(made: Built, k: int, shares: Mapping[str, float] | None) -> None:
    """Rows that give each stage its part of the class's cores."""
    space = made.space
    node = space.classes[k].node
    cores = node.count * node.cores
    given: dict[int, float] = {}
    for demand in space.demands:
        if _apart(space, demand.name):
            continue  # it has all cores in its own phase
        options = space.classes[k].on_cores
        terms = {
            column: options[j].cores
            for (kk, j), column in made.busy_cores.items()
            if kk == k and options[j].stage == demand.name
        }
        if shares is not None:
            made.model.row("share", terms, high=shares[demand.name] * cores)
            continue
        mine = made.model.column("whole cores", high=cores, integer=True)
        given[mine] = 1.0
        made.model.row("share", {**terms, mine: -1.0}, high=0.0)
    if given:
        made.model.row("whole cores", given, high=cores)


def _apart(space: Space, stage: str) -> bool:
    return space.schedule == "synchronous" and space.demand(stage).learns
