"""From a space to an allocation: relax, price, cut, solve, and say how far from the bound it is.

The relaxation is solved by column generation: patterns enter while any is worth more than its
device costs, so its value bounds every pattern there is. Then the integer program is solved over
those that entered, and over every one that the gap cannot rule out. Invariant: `bound` is at
least the throughput of every plan of the space; an allocation's throughput is computed from its
counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ebrl.planner.model import milp, patterns, pricing
from ebrl.planner.model.allocation import Found, Relaxed, allocation
from ebrl.planner.model.learning import Cut, cuts, first_cuts, throughput
from ebrl.planner.model.milp import Built
from ebrl.planner.model.solver import Outcome, certificate, solve
from ebrl.planner.model.space import ClassSpace, Pattern, Space
from ebrl.planner.model.worths import Worths

ROUNDS = 60
MARGIN = 1e-8  # of throughput: what a pattern has to be worth beyond its device to enter
TOLERANCE = 1e-6  # relative, about what the solver keeps its rows to
NONE = 1e-7  # of what rows ask for
ENTERING = 24  # patterns a class and round
FIRST_ALLOWANCE = 1e-2  # of throughput
FEW_DEVICES = 64  # up to here taking turns can matter
SPARE = 150  # patterns beside those of the relaxation in the first integer program
MOST = 1500  # patterns in the last one
NODES = 4000  # of the search tree, where one node's devices are all there is
ROUGH, ROUGH_NODES = 2e-2, 30  # gap and effort where kinds of nodes are generated afterwards


def _proven(made: Built, outcome: Outcome, listed: bool) -> float:
    """What the duals prove, with all that patterns which did not enter could still add."""
    bound = certificate(made.model, outcome.duals)
    if not listed:
        devices = sum(each.node.count * each.node.devices for each in made.space.classes)
        bound += MARGIN * abs(outcome.objective) * devices
    return max(bound, outcome.objective)


def quick_bound(space: Space) -> float:
    """What the learner's ranks could do at most, each on the best hardware and always busy."""
    if space.mode is None or space.objective != "throughput":
        return math.inf
    learner = space.learner
    assert learner is not None
    rates = [
        option.rate / learner.items
        for each in space.classes
        for option in (*each.on_cores, *each.on_device)
        if option.stage == learner.name
    ]
    capacity = space.mode.ranks * max(rates, default=0.0)
    return throughput("asynchronous", space.mode, math.inf, capacity)


def relax(space: Space, *, closed: bool = False) -> Relaxed:
    """The bound over every pattern, or, `closed`, over those that the space has."""
    begun = time.perf_counter()
    tangents = list(first_cuts(space.mode)) if space.mode else [ROLLOUT_ONLY]
    if not closed:
        space = replace(space, classes=tuple(_first(space, each) for each in space.classes))
    listed = closed or _listed(space)
    worths = () if listed else tuple(Worths(space, k) for k in range(len(space.classes)))
    scale = scale_of(space)
    nothing = Relaxed(
        space=space,
        feasible=False,
        bound=0.0,
        cuts=(),
        scale=scale,
        prices={},
        seconds=0.0,
        values={},
    )
    tried = listed
    for _ in range(ROUNDS):
        made = milp.build(space, tangents, scale)
        outcome = solve(made.model, relaxed=True)
        if not outcome.values:
            found = None if tried else _feasible(space, worths, tangents, scale)
            if found is None:
                return replace(nothing, seconds=time.perf_counter() - begun)
            space, tried = found, True
            continue
        more = tangents_of(made, outcome, TOLERANCE)
        tangents += more
        prices = {row: outcome.duals[number] for row, number in made.rows.items()}
        entered = 0
        if not listed:
            space, entered = _enter(space, worths, prices, MARGIN * abs(outcome.objective))
        if not more and not entered:
            break
    values = {
        "throughput": outcome.values[made.throughput] * scale,
        "ranks": _ranks(made, outcome),
    }
    return Relaxed(
        space=space,
        feasible=True,
        bound=_proven(made, outcome, listed) * (scale if space.objective == "throughput" else 1.0),
        cuts=tuple(tangents),
        scale=scale,
        prices=prices,
        seconds=time.perf_counter() - begun,
        values=values,
        worths=worths,
    )


def _feasible(
    space: Space, worths: Sequence[Worths], tangents: Sequence[Cut], scale: float
) -> Space | None:
    """The space with patterns enough for every row that asks for something; None where no patterns
    are enough."""
    for _ in range(ROUNDS):
        made = milp.build(space, tangents, scale, soft=True)
        outcome = solve(made.model, relaxed=True)
        if not outcome.values:
            return None
        if sum(outcome.values[column] for column in made.short) <= NONE:
            return space
        prices = {row: outcome.duals[number] for row, number in made.rows.items()}
        space, entered = _enter(space, worths, prices, NONE)
        if not entered:
            return None
    return None


def scale_of(space: Space) -> float:
    """Environment steps a second of one replica of the scarcest stage: then the numbers of the
    model are about as large as its counts."""
    least = math.inf
    for demand in space.demands:
        rate = 0.0
        for each in space.classes:
            node = each.node
            mine = [o for o in each.on_device if o.stage == demand.name]
            rate += node.count * node.devices * max((o.rate for o in mine), default=0.0)
            cores = [o for o in each.on_cores if o.stage == demand.name]
            rate += node.count * node.cores * max((o.rate / o.cores for o in cores), default=0.0)
        least = min(least, rate / demand.items)
    count = sum(each.node.count * (each.node.devices or each.node.cores) for each in space.classes)
    return max(least / count, 1e-9)


ROLLOUT_ONLY = Cut(rollout=1.0, learner=0.0, constant=0.0)


def _first(space: Space, each: ClassSpace) -> ClassSpace:
    """The patterns to begin with: all of them where they are few."""
    if each.node.device is None or not each.on_device:
        return each
    listed = patterns.everything(space, each)
    if listed is None:
        listed = patterns.alone(space, each)
        if each.node.count * each.node.devices <= FEW_DEVICES:
            listed += patterns.taking_turns(space, each)
    return replace(each, patterns=tuple(sorted(set(listed))))


def _enter(
    space: Space, worths: Sequence[Worths], prices: Mapping[milp.Row, float], margin: float
) -> tuple[Space, int]:
    """The space with the patterns that are worth more than their device at these prices."""
    entered = 0
    classes = []
    for k, each in enumerate(space.classes):
        known = set(each.patterns)
        new = [
            pattern
            for _, pattern in pricing.priced(
                space, k, worths[k], prices, margin=margin, most=ENTERING
            )
            if pattern not in known
        ]
        entered += len(new)
        classes.append(replace(each, patterns=each.patterns + tuple(new)) if new else each)
    return replace(space, classes=tuple(classes)), entered


def _ranks(made: Built, outcome: Outcome) -> float:
    """Learner ranks of the solution."""
    for s, demand in enumerate(made.space.demands):
        if demand.learns:
            row = made.model.rows[made.rows["ranks", s]]
            return sum(c * outcome.values[column] for column, c in row.items())
    return 0.0


def best(
    relaxed: Relaxed,
    *,
    time_limit_s: float,
    resolution: float,
    closed: bool = False,
    effort: int | None = None,
) -> Found:
    """The integer optimum, within the resolution, or what the time limit left.

    First over the patterns of the relaxation and the next best ones. What that leaves open, the
    patterns that are too far from paying for their device cannot close, so the last program has all
    the others, and its bound is everybody's.
    """
    begun = time.perf_counter()
    space = relaxed.space
    single = sum(each.node.count for each in space.classes) == 1
    if effort is None:
        effort = NODES if single else ROUGH_NODES
    gap_aim = resolution if single or closed else ROUGH
    unit = relaxed.scale if space.objective == "throughput" else 1.0
    tangents = list(relaxed.cuts)
    listed = closed or _listed(space)
    allowance, complete = math.inf, True
    if not listed:
        allowance = FIRST_ALLOWANCE * abs(relaxed.bound) / unit
        space, complete = _joined(relaxed, allowance, SPARE)
    made, outcome = _integers(space, tangents, relaxed.scale, time_limit_s, gap_aim, effort)
    limit = relaxed.bound / unit
    bound = _bound(outcome, limit, allowance) if complete else limit
    if single and outcome.values and bound - outcome.objective > resolution * abs(bound):
        gap = (limit - outcome.objective) * (1 + 1e-6)
        left = time_limit_s - (time.perf_counter() - begun)
        again_needed = gap > allowance or not complete
        wider, complete = space, False
        if left > 0 and again_needed:
            wider, complete = _joined(relaxed, gap, MOST)
        if complete:
            again, result = _integers(wider, tangents, relaxed.scale, left, resolution, effort)
            if result.values:
                bound = min(bound, max(_bound(result, limit, gap), outcome.objective))
                if result.objective >= outcome.objective:
                    made, outcome = again, result
    return Found(
        allocation=allocation(made, outcome, relaxed) if outcome.values else None,
        bound=min(bound * unit, relaxed.bound),
        status=outcome.status,
        solver=outcome.solver,
        seconds=time.perf_counter() - begun,
    )


def _listed(space: Space) -> bool:
    """Has the space every pattern there is?"""
    return all(
        patterns.everything(space, each) is not None for each in space.classes if each.on_device
    )


def _bound(outcome: Outcome, limit: float, allowance: float) -> float:
    """What an integer program over every pattern within the allowance proves for all patterns: a
    plan with any other is worse than the relaxation by more than the allowance."""
    return max(outcome.bound, limit - allowance) if outcome.values else limit


def within(relaxed: Relaxed, gap: float) -> list[tuple[Pattern, ...]] | None:
    """By class, every pattern that may be in a plan that is better than the relaxation less the
    gap; None where there are too many."""
    space, complete = relaxed.space, True
    if relaxed.worths:
        space, complete = _joined(relaxed, gap / relaxed.scale, MOST)
    return [each.patterns for each in space.classes] if complete else None


def _joined(relaxed: Relaxed, allowance: float, most: int) -> tuple[Space, bool]:
    """The space with the patterns within the allowance, best first and at most so many; are these
    all?"""
    space, prices, complete = relaxed.space, relaxed.prices, True
    classes = []
    for k, each in enumerate(space.classes):
        found = pricing.near(
            space, k, relaxed.worths[k], prices, allowance=allowance, most=20 * most
        )
        complete = complete and found is not None and len(found) <= most
        known = set(each.patterns)
        new = [pattern for pattern in (found or [])[:most] if pattern not in known]
        classes.append(replace(each, patterns=each.patterns + tuple(new)))
    return replace(space, classes=tuple(classes)), complete


def _integers(
    space: Space,
    tangents: list[Cut],
    scale: float,
    time_limit_s: float,
    resolution: float,
    effort: int,
) -> tuple[Built, Outcome]:
    """The integer program over the space's patterns; tangents are added until they hold."""
    begun = time.perf_counter()
    for _ in range(ROUNDS):
        made = milp.build(space, tangents, scale)
        left = max(0.5, time_limit_s - (time.perf_counter() - begun))
        outcome = solve(
            made.model,
            time_limit_s=left,
            relative_gap=resolution / 4,
            node_limit=effort,
            presolve=False,
        )
        more = tangents_of(made, outcome, max(TOLERANCE, resolution / 8))
        if not more or outcome.status in ("time limit", "effort limit"):
            break
        tangents += more
    return made, outcome


def tangents_of(made: Built, outcome: Outcome, tolerance: float) -> tuple[Cut, ...]:
    """Cuts at the solution, if it promises more than the curve gives there."""
    space = made.space
    if space.mode is None or not outcome.values:
        return ()
    rollout = sum(outcome.values[c] for c in made.rollout) * made.scale
    learner = outcome.values[made.learner] * made.scale
    claimed = outcome.values[made.throughput] * made.scale
    if rollout <= 0 or learner <= 0:
        return ()
    if claimed <= throughput(space.schedule, space.mode, rollout, learner) * (1 + tolerance):
        return ()
    return cuts(space.schedule, space.mode, rollout, learner)
