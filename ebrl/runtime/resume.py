"""Going on from a checkpoint: which one, and what of it the slab must know before anybody starts.

Invariants: versions go on, so the staleness bound holds across the stop; no random number is drawn
twice, except where a run is to be repeated exactly. That is so with η = 0 from a version at which
episodes begin anew: there the environments' seeds follow from the version, and decisions are
counted as they were.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ebrl.planner.layout import segments_per_batch
from ebrl.planner.plan import Plan, read
from ebrl.runtime import checkpoint
from ebrl.runtime.checkpoint import State
from ebrl.runtime.rundir import GIVEN, PLAN, PLANS
from ebrl.runtime.slab import Slab


def find(path: Path, plan: Plan, *, any_graph: bool) -> tuple[Path, State]:
    """The checkpoint that is meant, checked; RunError where it is not of this graph, or not whole.

    A synchronous run goes on from the newest checkpoint at which episodes begin anew, even where a
    newer one is there: what it trains again it trains as it would have without the stop.
    """
    folder = checkpoint.exact(path) if plan.max_staleness == 0 else checkpoint.resolve(path)
    state = checkpoint.read(folder)
    checkpoint.belongs(
        state,
        folder,
        graph=plan.program.name,
        program_sha256=None if any_graph else plan.program.sha256,
    )
    return folder, state


def plan_in_force(path: Path, given: Plan) -> tuple[Path, Plan] | None:
    """The plan that the run of this checkpoint had gone over to, and its file, where it was begun
    with `given`; None: it is `given`, or the run was begun with another plan.
    """
    run = checkpoint.resolve(path).parent.parent
    begun = (run / name for name in (PLAN, GIVEN))
    if given.digest() not in {read(each).digest() for each in begun if each.is_file()}:
        return None
    taken = [each for each in (run / PLANS).glob("*.json") if each.stem.isdigit()]
    file = max(taken, default=run / PLAN)
    plan = read(file)
    return None if plan.digest() == given.digest() else (file, plan)


def restore(slab: Slab, plan: Plan, state: State) -> None:
    """Counters as they were when `state` was saved. Segments that were in flight are gone."""
    batch = segments_per_batch(plan.program)
    slab["started"][0] = batch * state.version
    count = plan.environments.count
    slab["env/started"][:] = batch * state.version // count
    same = len(state.decisions) == count
    slab["env/decisions"][:] = state.decisions if same else max(state.decisions, default=0)
    lives = np.asarray(state.lives if same else [max(state.lives, default=0)] * count)
    slab["env/lives"][:] = lives if state.anew and plan.max_staleness == 0 else lives + 1
