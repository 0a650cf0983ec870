"""What was considered beside the plan: how people place stages by hand, as restrictions of the
model.

An alternative's throughput is that of its best counts of its most promising patterns, without what
binding them to nodes may cost. Invariant: the restrictions use the same options, the
same times and the same interference as the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from ebrl.errors import InfeasibleError
from ebrl.frontend.program import Program
from ebrl.planner.binding.result import Result
from ebrl.planner.hardware import Cluster
from ebrl.planner.model import patterns, pricing, search
from ebrl.planner.model.allocation import Relaxed
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.model.space import ClassSpace, Pattern, Space
from ebrl.planner.model.spaces import spaces
from ebrl.planner.model.worths import Worths
from ebrl.planner.plan import Alternative
from ebrl.planner.profile import Point
from ebrl.planner.telling import splits

Restriction = Callable[[Space, ClassSpace], tuple[Pattern, ...]]
SECONDS = 5.0  # for the integer program of one alternative, at most
UNIFORM = 16  # patterns of devices that are all alike
PROMISING = 60  # patterns of an alternative
RESOLUTION, EFFORT = 1e-2, 20  # a rough answer will do for what is not chosen


def consider(
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
    best: Result,
) -> tuple[Alternative, ...]:
    """On devices: collocated whole GPUs, disaggregated whole GPUs, an even split. On cores alone:
    an even split, whole cores. On both, the other schedule."""
    assert best.found.allocation is not None
    space = best.found.allocation.space
    if options.objective != "throughput":
        return ()
    rate = best.binding.throughput
    found: list[Alternative] = []
    if any(each.on_device for each in space.classes):
        used = [
            {pattern for node in best.binding.nodes if node.k == k for pattern in node.patterns}
            for k in range(len(space.classes))
        ]
        for name, restriction, why in (
            ("collocated", collocated, "every GPU alike, all stages taking turns on it"),
            ("disaggregated", disaggregated, "each GPU for one stage, in the best ratio"),
            ("hybrid", hybrid, "whole GPUs, for one stage or in turns"),
            ("even split", even, "all stages on every GPU, equal shares of its SMs"),
        ):
            own = restriction is hybrid and _on_whole_devices(used, space)
            value = rate if own else restricted(space, restriction)
            found.append(_alternative(name, value, rate, why))
    else:
        found.append(
            _alternative("even split", splits.even(space), rate, "an equal share of the cores each")
        )
        found.append(
            _alternative("whole cores", splits.whole(space), rate, "each core for one stage alone")
        )
    if space.schedule == "asynchronous" and space.mode is not None:
        value = _alternating(program, cluster, points, options, space)
        what = "rollout and training in turn (max_staleness 0), at most"
        found.append(_alternative("alternating", value, rate, what))
    return tuple(found)


def _alternative(name: str, value: float | None, rate: float, what: str) -> Alternative:
    """An alternative beside the plan's rate."""
    if value is None:
        return Alternative(name=name, throughput_env_steps_per_s=None, why=what)
    if value >= rate * (1 - 1e-3):
        return Alternative(
            name=name, throughput_env_steps_per_s=min(value, rate), why=f"{what}: no better"
        )
    less = 1 - value / rate
    digits = f"{less:.0%}" if less >= 0.01 else f"{less:.1%}"
    return Alternative(name=name, throughput_env_steps_per_s=value, why=f"{what}: {digits} less")


def _alternating(
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
    space: Space,
) -> float | None:
    """What rollout and training in turn could reach at most, the learner spread as in the plan."""
    asked = msgspec.structs.replace(options, max_staleness=0)
    best = 0.0
    try:
        for same in spaces(program, cluster, points, asked):
            mode = same[0].mode
            if mode is None or space.mode is None:
                continue
            if (mode.hardware, mode.span) != (space.mode.hardware, space.mode.span):
                continue
            relaxed = search.relax(same[-1])
            best = max(best, relaxed.bound if relaxed.feasible else 0.0)
    except InfeasibleError:  # no number of environments divides an update
        return None
    return best or None


def _on_whole_devices(used: Sequence[set[Pattern]], space: Space) -> bool:
    """Does the plan split no device's SMs?"""
    return all(
        pattern.turns or sum(not space.apart(each.on_device[o]) for o in pattern.members) < 2
        for patterns_, each in zip(used, space.classes, strict=True)
        for pattern in patterns_
    )


def restricted(space: Space, restriction: Restriction) -> float | None:
    """The best throughput with these patterns alone; None where nothing fits."""
    classes = tuple(
        replace(each, patterns=tuple(sorted(set(restriction(space, each)))))
        if each.on_device
        else each
        for each in space.classes
    )
    relaxed = search.relax(replace(space, classes=classes), closed=True)
    if not relaxed.feasible or relaxed.values["throughput"] <= 0:
        return None
    relaxed = replace(relaxed, space=_promising(relaxed))
    found = search.best(
        relaxed, time_limit_s=SECONDS, resolution=RESOLUTION, closed=True, effort=EFFORT
    )
    if found.allocation is None or found.allocation.throughput <= 0:
        return None
    return found.allocation.throughput


def _promising(relaxed: Relaxed) -> Space:
    """The space with the patterns that pay best for their devices."""
    space = relaxed.space
    classes = []
    for k, each in enumerate(space.classes):
        if len(each.patterns) > PROMISING:
            ranked = pricing.ranked(space, k, Worths(space, k), relaxed.prices)
            each = replace(each, patterns=tuple(ranked[:PROMISING]))  # noqa: PLW2901
        classes.append(each)
    return replace(space, classes=tuple(classes))


def collocated(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """Patterns of every stage that runs on devices, taking turns on all of them: the fastest ones
    that leave environments and shares of an update enough for so many devices."""
    stages = _stages(each)
    if len(stages) < 2:
        return patterns.alone(space, each)
    number = each.node.count * each.node.devices
    found = []
    for pattern in patterns.taking_turns(space, each, thin=False):
        options = [each.on_device[o] for o in pattern.members]
        if len(options) < len(stages):
            continue
        demands = [space.demand(option.stage) for option in options]
        held = max(
            (
                o.resident or o.batch * space.groups
                for o, d in zip(options, demands, strict=True)
                if d.loop
            ),
            default=0,
        )
        share = max((o.batch for o, d in zip(options, demands, strict=True) if d.learns), default=0)
        fits = number * held <= space.environments[1]
        fits = fits and (space.mode is None or number * share <= space.mode.batch)
        busy = sum(d.items / o.rate for o, d in zip(options, demands, strict=True))
        found.append((not fits, busy, pattern))
    return tuple(pattern for _, _, pattern in sorted(found)[:UNIFORM])


def disaggregated(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """One stage a device; a synchronous learner is on the devices of the others anyway."""
    found = patterns.alone(space, each)
    return found if space.schedule == "asynchronous" else found + _with_learner(space, each)


def hybrid(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    return disaggregated(space, each) + patterns.taking_turns(space, each)


def even(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """Every stage on every device, with equal shares of its SMs, as near as the grid allows."""
    assert each.node.device is not None
    stages = _stages(each)
    share = each.node.device.sms / len(stages)
    quotas = [q for q in each.node.device.quotas() if q <= share]
    if not quotas:
        return ()
    thin = replace(
        each,
        on_device=tuple(o for o in each.on_device if o.sms == max(quotas) or space.apart(o)),
    )
    listed = patterns.everything(space, thin, limit=20_000) or ()
    number = {id(option): o for o, option in enumerate(each.on_device)}
    return tuple(
        replace(p, members=tuple(number[id(thin.on_device[o])] for o in p.members))
        for p in listed
        if len(p.members) == len(stages) and not p.turns
    )


def _with_learner(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """A whole device for one stage, and the learner on it in its own phase."""
    assert each.node.device is not None
    whole = [o for o, option in enumerate(each.on_device) if option.sms == each.node.device.sms]
    learners = [o for o in whole if space.apart(each.on_device[o])]
    found = []
    for o in whole:
        for learner in learners:
            pair = (o, learner)
            memory = sum(each.on_device[m].memory_bytes for m in pair)
            if o not in learners and memory <= each.node.device.memory_bytes:
                found.append(Pattern(tuple(sorted(pair))))
    return tuple(found)


def _stages(each: ClassSpace) -> Sequence[str]:
    return list(dict.fromkeys(option.stage for option in each.on_device))
