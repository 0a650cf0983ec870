"""Ways to share a device, listed: all of them where they are few, and the plain ones to begin with.

Invariant: whatever is listed fits, by its SMs (or in turns) and by its memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.hardware import DeviceKind
from ebrl.planner.model.space import ClassSpace, Pattern, Space

LISTED = 400  # so few patterns are listed outright
TOGETHER = 6  # batch choices of a set of stages that takes turns


def everything(
    space: Space, each: ClassSpace, limit: int | None = None
) -> tuple[Pattern, ...] | None:
    """Every pattern of the class, or None where there are more than `limit` (LISTED)."""
    stages = by_stage(space, each)
    total = math.prod(1 + len(options) for options in stages.values()) - 1
    if total > (LISTED if limit is None else limit):
        return None
    found = []
    for chosen in itertools.product(*((None, *options) for options in stages.values())):
        members = tuple(o for o in chosen if o is not None)
        if members and fits(space, each, members):
            found.append(_split(space, each, members))
    return tuple(found) + taking_turns(space, each)


def alone(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """One stage on the whole device, every batch: where the search begins."""
    assert each.node.device is not None
    return tuple(
        Pattern((o,))
        for o, option in enumerate(each.on_device)
        if option.sms == each.node.device.sms and fits(space, each, (o,))
    )


def taking_turns(space: Space, each: ClassSpace, *, thin: bool = True) -> tuple[Pattern, ...]:
    """Sets of stages that take turns on the whole device: all choices of batches that fit, or,
    thin, some with each.

    In a relaxation they are hardly worth more than the same stages on devices of their own; they
    matter where devices are few.
    """
    assert each.node.device is not None
    whole = {
        stage: [o for o in options if each.on_device[o].sms == each.node.device.sms]
        for stage, options in by_stage(space, each).items()
    }
    found: list[Pattern] = []
    for stages in sets(list(whole)):
        if (
            sum(
                not space.demand(stage).learns or space.schedule == "asynchronous"
                for stage in stages
            )
            < 2
        ):
            continue
        fitting = []
        for members in itertools.product(*(whole[stage] for stage in stages)):
            if fits(space, each, members, turns=True):
                worth = math.prod(each.on_device[o].rate for o in members)
                fitting.append((-worth, members))
        slowdown = space.slowdowns.of(frozenset(stages), turns=True)
        for _, members in _varied(fitting) if thin else sorted(fitting):
            found.append(Pattern(tuple(sorted(members)), slowdown, True))
    return tuple(found)


def _varied(fitting: list[tuple[float, tuple[int, ...]]]) -> list[tuple[float, tuple[int, ...]]]:
    """All where they are few; else the best for each batch of each stage."""
    fitting.sort()
    if len(fitting) <= TOGETHER**2:
        return fitting
    kept: dict[tuple[float, tuple[int, ...]], None] = {}
    seen: dict[int, int] = {}
    for row in fitting:
        if any(seen.get(o, 0) < 2 for o in row[1]):
            kept[row] = None
            for o in row[1]:
                seen[o] = seen.get(o, 0) + 1
    return list(kept)


def combos(
    space: Space,
    each: ClassSpace,
    batches: Mapping[str, Mapping[int, list[int]]],
    stages: Sequence[str],
) -> NDArray[np.int64]:
    """Choices of batches (by rank) that fit into the device's memory and the smallest quotas."""
    assert each.node.device is not None
    memory = [
        np.array(
            [each.on_device[options[0]].memory_bytes for options in batches[s].values()], float
        )
        for s in stages
    ]
    least = [
        min(sms(space, each, o) for options in batches[s].values() for o in options) for s in stages
    ]
    if sum(least) > each.node.device.sms:
        return np.zeros((0, len(stages)), np.int64)
    grid = np.meshgrid(*(np.arange(len(m)) for m in memory), indexing="ij")
    total = sum(m[g] for m, g in zip(memory, grid, strict=True))
    fits = total <= each.node.device.memory_bytes
    return np.stack([g[fits] for g in grid], axis=1)


def sms(space: Space, each: ClassSpace, o: int) -> int:
    return 0 if space.apart(each.on_device[o]) else each.on_device[o].sms


def fits(space: Space, each: ClassSpace, members: Sequence[int], *, turns: bool = False) -> bool:
    device: DeviceKind | None = each.node.device
    assert device is not None
    used = sum(sms(space, each, o) for o in members)
    memory = sum(each.on_device[o].memory_bytes for o in members)
    return (turns or used <= device.sms) and memory <= device.memory_bytes


def _split(space: Space, each: ClassSpace, members: Sequence[int]) -> Pattern:
    options = [each.on_device[o] for o in members]
    return Pattern(tuple(sorted(members)), space.slowdown(options))


def by_stage(space: Space, each: ClassSpace) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for demand in space.demands:
        mine = [o for o, option in enumerate(each.on_device) if option.stage == demand.name]
        if mine:
            found[demand.name] = mine
    return found


def by_batch(space: Space, each: ClassSpace) -> dict[str, dict[int, list[int]]]:
    """Options of each stage, by batch and what else takes memory; those share their footprint."""
    found: dict[str, dict[int, list[int]]] = {}
    for stage, options in by_stage(space, each).items():
        rows: dict[object, list[int]] = {}
        for o in options:
            option = each.on_device[o]
            rows.setdefault((option.batch, option.resident, option.memory_bytes), []).append(o)
        found[stage] = dict(enumerate(rows.values()))
    return found


def sets(stages: list[str]) -> Iterator[tuple[str, ...]]:
    for size in range(1, len(stages) + 1):
        yield from itertools.combinations(stages, size)
