"""Patterns, found where they are worth something instead of listed: the pricing half of column
generation (Gilmore and Gomory).

Given the prices of a linear relaxation, the worth of a pattern is the sum of its options' worths, so
the best split of a device's SMs over stages is a max-plus convolution over the SM grid, for every set
of stages and every choice of batches that fits into the memory; all in numpy. Invariant: when no
pattern is worth more than its device costs, the relaxation is optimal over every pattern there is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebrl.planner import milp
from ebrl.planner.hardware import DeviceKind
from ebrl.planner.options import Option
from ebrl.planner.space import ClassSpace, Pattern, Space

Prices = Mapping[milp.Row, float]
LISTED = 400  # so few patterns are listed outright
TOGETHER = 6  # batch choices of a set of stages that takes turns


def everything(space: Space, each: ClassSpace, limit: int = LISTED) -> tuple[Pattern, ...] | None:
    """Every pattern of the class, or None where there are more than `limit`."""
    by_stage = _by_stage(space, each)
    total = math.prod(1 + len(options) for options in by_stage.values()) - 1
    if total > limit:
        return None
    found = []
    for chosen in itertools.product(*((None, *options) for options in by_stage.values())):
        members = tuple(o for o in chosen if o is not None)
        if members and _fits(space, each, members):
            found.append(_split(space, each, members))
    return tuple(found) + taking_turns(space, each)


def alone(space: Space, each: ClassSpace) -> tuple[Pattern, ...]:
    """One stage on the whole device, every batch: where the search begins."""
    assert each.node.device is not None
    return tuple(
        Pattern((o,))
        for o, option in enumerate(each.on_device)
        if option.sms == each.node.device.sms and _fits(space, each, (o,))
    )


def taking_turns(
    space: Space, each: ClassSpace, *, thin: bool = True
) -> tuple[Pattern, ...]:
    """Sets of stages that take turns on the whole device: all choices of batches that fit, or, thin,
    some with each.

    In a relaxation they are hardly worth more than the same stages on devices of their own; they
    matter where devices are few.
    """
    assert each.node.device is not None
    whole = {
        stage: [o for o in options if each.on_device[o].sms == each.node.device.sms]
        for stage, options in _by_stage(space, each).items()
    }
    found: list[Pattern] = []
    for stages in _sets(list(whole)):
        if sum(not space.demand(stage).learns or space.schedule == "asynchronous" for stage in stages) < 2:
            continue
        fitting = []
        for members in itertools.product(*(whole[stage] for stage in stages)):
            if _fits(space, each, members, turns=True):
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


def priced(
    space: Space, k: int, worths: Worths, prices: Prices, *, margin: float, most: int
) -> list[tuple[float, Pattern]]:
    """Patterns worth at least `margin` more than their device, best first, at most `most`.

    Of each set of stages and choice of batches, the best split of the SMs.
    """
    each = space.classes[k]
    device = each.node.device
    if device is None or not each.on_device:
        return []
    rent = prices.get(("devices", k), 0.0)
    gains = worths.at(prices)
    unit = math.gcd(*(option.sms for option in each.on_device), device.sms)
    slots = device.sms // unit
    batches = _by_batch(space, each)
    found: list[tuple[float, Pattern]] = []
    for stages in _sets(list(batches)):
        slowdown = space.slowdown([each.on_device[next(iter(batches[s].values()))[0]] for s in stages])
        combos = _combos(space, each, batches, stages)
        if not len(combos):
            continue
        value, choice = _best_split(
            space, each, batches, stages, combos, gains, slowdown, unit, slots
        )
        value = value - rent
        for row in np.flatnonzero(value > margin):
            members = tuple(sorted(int(o) for o in choice[row]))
            found.append((float(value[row]), Pattern(members, slowdown)))
        in_turns = _turns(space, each, batches, stages, combos, gains, rent + margin)
        found += [(worth - rent, pattern) for worth, pattern in in_turns]
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    return found[:most]


def ranked(space: Space, k: int, worths: Worths, prices: Prices) -> list[Pattern]:
    """The class's patterns, those that pay best for their device first."""
    each = space.classes[k]
    gains = worths.at(prices)

    def value(pattern: Pattern) -> float:
        if pattern.turns:
            return _in_turns(space, each, gains, pattern.members, pattern.slowdown)
        return math.fsum(
            gains.works[o] / (1.0 if space.apart(each.on_device[o]) else pattern.slowdown)
            + gains.sits[o]
            for o in pattern.members
        )

    return sorted(each.patterns, key=lambda pattern: (-value(pattern), pattern))


def _in_turns(
    space: Space, each: ClassSpace, gains: Gains, members: Sequence[int], slowdown: float
) -> float:
    """A device whose stages take turns: all sit, and the best of them works."""
    apart = [o for o in members if space.apart(each.on_device[o])]
    turning = [o for o in members if o not in apart]
    best = max((float(gains.works_in_turn[o]) for o in turning), default=0.0) / slowdown
    return best + math.fsum(
        [gains.sits_in_turn[o] for o in turning] + [gains.works[o] + gains.sits[o] for o in apart]
    )


def _turns(
    space: Space,
    each: ClassSpace,
    batches: Mapping[str, Mapping[int, list[int]]],
    stages: Sequence[str],
    combos: NDArray[np.int64],
    gains: Gains,
    least: float,
) -> list[tuple[float, Pattern]]:
    """Every choice of batches on the whole device, in turns, that is worth at least so much."""
    assert each.node.device is not None
    turning = [s for s in stages if space.schedule == "asynchronous" or not space.demand(s).learns]
    if len(turning) < 2 or not len(combos):
        return []
    slowdown = space.slowdowns.of(frozenset(turning), turns=True)
    columns = []
    for stage, column in zip(stages, combos.T, strict=True):
        whole = np.array(
            [
                next((o for o in some if each.on_device[o].sms == each.node.device.sms), -1)
                for some in batches[stage].values()
            ]
        )
        columns.append(whole[column])
    members = np.stack(columns, axis=1)
    working = np.full(len(combos), 0.0)
    sitting = np.zeros(len(combos))
    for stage, column in zip(stages, columns, strict=True):
        if stage in turning:
            working = np.maximum(working, gains.works_in_turn[column] / slowdown)
            sitting = sitting + gains.sits_in_turn[column]
        else:
            sitting = sitting + gains.works[column] + gains.sits[column]
    value = np.where((members >= 0).all(axis=1), working + sitting, -np.inf)
    return [
        (float(value[row]), Pattern(tuple(sorted(members[row].tolist())), slowdown, True))
        for row in np.flatnonzero(value >= least)
    ]


def near(
    space: Space, k: int, worths: Worths, prices: Prices, *, allowance: float, most: int
) -> list[Pattern] | None:
    """Every undominated pattern worth at most `allowance` less than its device, best first; None
    where there are more than `most`.

    No pattern outside can be in a plan that is better than the relaxation less the allowance. A
    pattern is dominated where one of its stages could have the next larger quota as well.
    """
    each = space.classes[k]
    device = each.node.device
    if device is None or not each.on_device:
        return []
    rent = prices.get(("devices", k), 0.0)
    gains = worths.at(prices)
    batches = _by_batch(space, each)
    found: list[tuple[float, Pattern]] = []
    for stages in _sets(list(batches)):
        some = [each.on_device[next(iter(batches[stage].values()))[0]] for stage in stages]
        slowdown = space.slowdown(some)
        tables = {
            stage: [_table(space, each, o, gains, slowdown) for o in batches[stage].values()]
            for stage in stages
        }
        combos = _combos(space, each, batches, stages)
        found += _turns(space, each, batches, stages, combos, gains, rent - allowance)
        for combo in combos:
            chosen = [tables[stage][c] for stage, c in zip(stages, combo, strict=True)]
            value, members = _maximal(chosen, device.sms)
            for row in np.flatnonzero(value >= rent - allowance):
                pattern = Pattern(tuple(sorted(members[row].tolist())), slowdown)
                found.append((float(value[row]), pattern))
            if len(found) > most:
                return None
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    return [pattern for _, pattern in found]


Table = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]


def _table(
    space: Space,
    each: ClassSpace,
    options: Sequence[int],
    gains: Gains,
    slowdown: float,
) -> Table:
    """Quotas of one stage at one batch, rising, with their worths and options."""
    ordered = sorted(options, key=lambda o: each.on_device[o].sms)
    apart = space.apart(each.on_device[ordered[0]])
    sms = np.array([_sms(space, each, o) for o in ordered])
    options_ = np.array(ordered)
    worth = gains.works[options_] / (1.0 if apart else slowdown) + gains.sits[options_]
    return sms, worth, options_


def _maximal(tables: Sequence[Table], sms: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Worths and options of every split that leaves no stage room for its next larger quota."""
    first = [np.arange(len(table[0])) for table in tables[:-1]]
    grid = [g.ravel() for g in np.meshgrid(*first, indexing="ij")] if first else []
    used = sum((t[0][g] for t, g in zip(tables, grid, strict=False)), np.zeros(1, np.int64))
    last = np.searchsorted(tables[-1][0], sms - used, side="right") - 1
    picks = [*grid, last]
    left = sms - used - tables[-1][0][np.maximum(last, 0)]
    good = last >= 0
    for (quotas, _, _), pick in zip(tables, picks, strict=True):
        beyond = np.append(quotas, np.iinfo(np.int64).max // 2)
        good = good & (beyond[pick + 1] - quotas[np.maximum(pick, 0)] > left)
    picks = [np.broadcast_to(pick, good.shape)[good] for pick in picks]
    value = sum((t[1][p] for t, p in zip(tables, picks, strict=True)), np.zeros(1))
    return np.asarray(value), np.stack([t[2][p] for t, p in zip(tables, picks, strict=True)], axis=1)


@dataclass(frozen=True, slots=True)
class Gains:
    """What each option is worth, [options]: its busy time and its seat (what it takes up, so mostly
    negative), with SMs and host cores of its own or in turns."""

    works: NDArray[np.float64]
    sits: NDArray[np.float64]
    works_in_turn: NDArray[np.float64]
    sits_in_turn: NDArray[np.float64]


class Worths:
    """The coefficients of a class's options, kept as matrices, to be multiplied by prices."""

    def __init__(self, space: Space, k: int) -> None:
        options = space.classes[k].on_device
        self._rows: dict[milp.Row, int] = {}
        self._count = len(options)
        self._tables = [
            self._table([list(milp.busy(space, k, option)) for option in options]),
            self._table([list(milp.seat(space, k, o, own_cores=True)) for o in options]),
            self._table([list(milp.seat(space, k, o, own_cores=False)) for o in options]),
            self._table([[(("cores", k, False), option.cores)] for option in options]),
        ]

    def _table(self, entries: Sequence[Sequence[milp.Entry]]) -> tuple[NDArray[np.float64], ...]:
        rows = [
            (o, self._rows.setdefault(row, len(self._rows)), coefficient)
            for o, some in enumerate(entries)
            for row, coefficient in some
        ]
        return tuple(np.array(each) for each in zip(*rows, strict=True)) if rows else ()

    def at(self, prices: Prices) -> Gains:
        """At these prices."""
        price = np.array([prices.get(row, 0.0) for row in self._rows])
        busy, own, shared, cores = (
            -np.bincount(t[0], weights=t[2] * price[t[1]], minlength=self._count)
            for t in self._tables
        )
        return Gains(np.maximum(busy, 0.0), own, np.maximum(busy + cores, 0.0), shared)


def _best_split(
    space: Space,
    each: ClassSpace,
    batches: Mapping[str, Mapping[int, list[int]]],
    stages: Sequence[str],
    combos: NDArray[np.int64],
    gains: Gains,
    slowdown: float,
    unit: int,
    slots: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Of each choice of batches: the worth of the best split, and its options, [choices, stages]."""
    tables = []
    for stage in stages:
        rows = [
            _by_slots(space, each, options, gains, slowdown, unit, slots)
            for options in batches[stage].values()
        ]
        tables.append((np.stack([r[0] for r in rows]), np.stack([r[1] for r in rows])))
    best, _ = tables[0][0], None
    # best[c, s]: worth of the stages so far, for each choice of their batches, within s slots
    best = tables[0][0][combos[:, 0]]
    splits: list[NDArray[np.int64]] = []
    for column in range(1, len(stages)):
        mine = tables[column][0][combos[:, column]]
        joined = np.full_like(best, -np.inf)
        given = np.zeros(best.shape, np.int64)
        for slot in range(slots + 1):  # slots given to this stage
            shifted = best[:, : slots + 1 - slot] + mine[:, slot : slot + 1]
            better = shifted > joined[:, slot:]
            joined[:, slot:] = np.where(better, shifted, joined[:, slot:])
            given[:, slot:] = np.where(better, slot, given[:, slot:])
        best = joined
        splits.append(given)
    rows_ = np.arange(len(combos))
    left = np.full(len(combos), slots)
    chosen = np.zeros((len(combos), len(stages)), np.int64)
    for column in range(len(stages) - 1, -1, -1):
        mine_slots = splits[column - 1][rows_, left] if column else left
        chosen[:, column] = tables[column][1][combos[:, column], mine_slots]
        left = left - mine_slots
    return best[:, slots], chosen


def _by_slots(
    space: Space,
    each: ClassSpace,
    options: Sequence[int],
    gains: Gains,
    slowdown: float,
    unit: int,
    slots: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Best worth of one stage at one batch within 0 … slots slots, and the option that gives it."""
    value = np.full(slots + 1, -np.inf)
    option = np.full(slots + 1, -1)
    for o in options:
        apart = space.apart(each.on_device[o])
        at = 0 if apart else each.on_device[o].sms // unit
        gain = gains.works[o] / (1.0 if apart else slowdown) + gains.sits[o]
        if gain > value[at]:
            value[at], option[at] = gain, o
    for slot in range(1, slots + 1):
        if value[slot - 1] >= value[slot]:
            value[slot], option[slot] = value[slot - 1], option[slot - 1]
    return value, option


def _combos(
    space: Space,
    each: ClassSpace,
    batches: Mapping[str, Mapping[int, list[int]]],
    stages: Sequence[str],
) -> NDArray[np.int64]:
    """Choices of batches (by their rank) that fit into the device's memory and the smallest quotas."""
    assert each.node.device is not None
    memory = [
        np.array([each.on_device[options[0]].memory_bytes for options in batches[s].values()], float)
        for s in stages
    ]
    least = [min(_sms(space, each, o) for options in batches[s].values() for o in options) for s in stages]
    if sum(least) > each.node.device.sms:
        return np.zeros((0, len(stages)), np.int64)
    grid = np.meshgrid(*(np.arange(len(m)) for m in memory), indexing="ij")
    total = sum(m[g] for m, g in zip(memory, grid, strict=True))
    fits = total <= each.node.device.memory_bytes
    return np.stack([g[fits] for g in grid], axis=1)


def _sms(space: Space, each: ClassSpace, o: int) -> int:
    return 0 if space.apart(each.on_device[o]) else each.on_device[o].sms


def _fits(space: Space, each: ClassSpace, members: Sequence[int], *, turns: bool = False) -> bool:
    device: DeviceKind | None = each.node.device
    assert device is not None
    sms = sum(_sms(space, each, o) for o in members)
    memory = sum(each.on_device[o].memory_bytes for o in members)
    return (turns or sms <= device.sms) and memory <= device.memory_bytes


def _split(space: Space, each: ClassSpace, members: Sequence[int]) -> Pattern:
    options = [each.on_device[o] for o in members]
    return Pattern(tuple(sorted(members)), space.slowdown(options))


def _by_stage(space: Space, each: ClassSpace) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for demand in space.demands:
        mine = [o for o, option in enumerate(each.on_device) if option.stage == demand.name]
        if mine:
            found[demand.name] = mine
    return found


def _by_batch(space: Space, each: ClassSpace) -> dict[str, dict[int, list[int]]]:
    """Options of each stage, by batch and what else takes memory; those share their footprint."""
    found: dict[str, dict[int, list[int]]] = {}
    for stage, options in _by_stage(space, each).items():
        rows: dict[object, list[int]] = {}
        for o in options:
            option = each.on_device[o]
            rows.setdefault((option.batch, option.resident, option.memory_bytes), []).append(o)
        found[stage] = dict(enumerate(rows.values()))
    return found


def _sets(stages: list[str]) -> Iterator[tuple[str, ...]]:
    for size in range(1, len(stages) + 1):
        yield from itertools.combinations(stages, size)
