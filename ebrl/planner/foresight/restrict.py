"""Plans of restricted spaces: the same graph, hardware, times and options, fewer ways to share.

Invariant: a restriction takes patterns away and adds none, so no restricted plan is beyond what
the planner itself could choose; each is verified like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from ebrl.errors import EbrlError
from ebrl.frontend.program import Program
from ebrl.planner.binding import assemble
from ebrl.planner.binding.bind import bind
from ebrl.planner.binding.result import Result
from ebrl.planner.hardware import Cluster
from ebrl.planner.model import patterns, pricing, search
from ebrl.planner.model.allocation import Relaxed
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.model.space import ClassSpace, Pattern, Space
from ebrl.planner.model.spaces import spaces
from ebrl.planner.model.worths import Worths
from ebrl.planner.plan import Plan
from ebrl.planner.portfolio import NOTHING
from ebrl.planner.profile import Point
from ebrl.planner.proof.verify import verify

Restriction = Callable[[Space, ClassSpace], tuple[Pattern, ...]]
PROMISING = 60  # patterns of a class
LIMIT_S, RESOLUTION, EFFORT = 10.0, 2e-3, 60


def plans(
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
    restriction: Restriction,
) -> Iterator[Plan]:
    """The best plan of every way to spread the learner and every number of environments that is
    tried; none where nothing fits."""
    try:
        families = list(spaces(program, cluster, points, options))
    except EbrlError:  # no number of environments goes with the batch, or a pin with the grid
        return
    for same in families:
        for space in same:
            plan = _plan(program, cluster, points, options, _restricted(space, restriction))
            if plan is not None:
                yield plan
                break


def _restricted(space: Space, restriction: Restriction) -> Space:
    return replace(
        space,
        classes=tuple(
            replace(each, patterns=tuple(sorted(set(restriction(space, each)))))
            if each.on_device
            else each
            for each in space.classes
        ),
    )


def _plan(
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
    space: Space,
) -> Plan | None:
    relaxed = search.relax(space, closed=True)
    if not relaxed.feasible or relaxed.values["throughput"] <= NOTHING:
        return None
    relaxed = replace(relaxed, space=_promising(relaxed))
    answer = search.best(
        relaxed, time_limit_s=LIMIT_S, resolution=RESOLUTION, closed=True, effort=EFFORT
    )
    if answer.allocation is None or answer.allocation.throughput <= NOTHING:
        return None
    binding, bound = bind(relaxed, answer, resolution=RESOLUTION, time_limit_s=LIMIT_S)
    if binding.throughput <= NOTHING or not binding.nodes:
        return None
    result = Result(found=answer, binding=binding, bound=max(bound, binding.value))
    plan = assemble.plan(program, cluster, points, options, result)
    return None if verify(plan) else plan


def _promising(relaxed: Relaxed) -> Space:
    """The space with the patterns that pay best for their devices."""
    space, classes = relaxed.space, []
    for k, each in enumerate(space.classes):
        kept = each
        if len(each.patterns) > PROMISING:
            ranked = pricing.ranked(space, k, Worths(space, k), relaxed.prices)
            kept = replace(each, patterns=tuple(ranked[:PROMISING]))
        classes.append(kept)
    return replace(space, classes=tuple(classes))


# -- restrictions --------------------------------------------------------------------------------


def one_stage(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """Each GPU whole, for one stage."""
    return patterns.alone(space, each)


def rollout_apart(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """Whole GPUs: some for the learner alone, the others for a stage of the rollout or for several
    in turns."""
    turns = patterns.taking_turns(space, each)
    return patterns.alone(space, each) + tuple(
        p for p in turns if not any(_learns(space, each, o) for o in p.members)
    )


def rollout_and_learner(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """Whole GPUs, one rollout stage each, and the learner on all of them when its turn comes."""
    return tuple(_with_learner(space, each, patterns.alone(space, each)))


def everything_alike(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """Whole GPUs, every stage on each of them, in turns."""
    stages = {option.stage for option in each.on_device}
    turns = patterns.taking_turns(space, each, thin=False) + patterns.alone(space, each)
    rollout = [p for p in turns if not any(_learns(space, each, o) for o in p.members)]
    wanted = {s for s in stages if not space.demand(s).learns}
    alike = [p for p in rollout if {each.on_device[o].stage for o in p.members} == wanted]
    return tuple(_with_learner(space, each, alike))


def whole_devices(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """Whole GPUs, for one stage or for several in turns."""
    return patterns.alone(space, each) + patterns.taking_turns(space, each)


def _with_learner(
    space: Space, each: ClassSpace, rollout: tuple[Pattern, ...] | list[Pattern]
) -> Iterator[Pattern]:
    """These, with a whole device's learner beside them in a phase of its own, where both fit."""
    assert each.node.device is not None
    whole = each.node.device.sms
    learners = [
        o for o, option in enumerate(each.on_device) if option.sms == whole and space.apart(option)
    ]
    for pattern in rollout:
        yield pattern
        for learner in learners:
            members = tuple(sorted((*pattern.members, learner)))
            memory = sum(each.on_device[o].memory_bytes for o in members)
            if learner not in pattern.members and memory <= each.node.device.memory_bytes:
                yield replace(pattern, members=members)


def _learns(space: Space, each: ClassSpace, o: int) -> bool:
    return space.demand(each.on_device[o].stage).learns
