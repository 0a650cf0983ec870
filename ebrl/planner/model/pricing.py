"""Patterns, found where they are worth something instead of listed: the pricing half of column
generation (Gilmore and Gomory).

Given the prices of a linear relaxation, the worth of a pattern is the sum of its options' worths,
so the best split of a device's SMs over stages is a max-plus convolution over the SM grid, for
every set of stages and every choice of batches that fits into the memory; all in numpy.
Invariant: when no pattern is worth more than its device costs, the relaxation is optimal over
every pattern there is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.model.patterns import by_batch, combos, sets, sms
from ebrl.planner.model.space import ClassSpace, Pattern, Space
from ebrl.planner.model.worths import Gains, Prices, Worths


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
    batches = by_batch(space, each)
    found: list[tuple[float, Pattern]] = []
    for stages in sets(list(batches)):
        slowdown = space.slowdown(
            [each.on_device[next(iter(batches[s].values()))[0]] for s in stages]
        )
        choices = combos(space, each, batches, stages)
        if not len(choices):
            continue
        value, choice = _best_split(
            space, each, batches, stages, choices, gains, slowdown, unit, slots
        )
        value = value - rent
        for row in np.flatnonzero(value > margin):
            members = tuple(sorted(int(o) for o in choice[row]))
            found.append((float(value[row]), Pattern(members, slowdown)))
        in_turns = _turns(space, each, batches, stages, choices, gains, rent + margin)
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
    batches = by_batch(space, each)
    found: list[tuple[float, Pattern]] = []
    for stages in sets(list(batches)):
        some = [each.on_device[next(iter(batches[stage].values()))[0]] for stage in stages]
        slowdown = space.slowdown(some)
        tables = {
            stage: [_table(space, each, o, gains, slowdown) for o in batches[stage].values()]
            for stage in stages
        }
        choices = combos(space, each, batches, stages)
        found += _turns(space, each, batches, stages, choices, gains, rent - allowance)
        for combo in choices:
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
    quotas = np.array([sms(space, each, o) for o in ordered])
    options_ = np.array(ordered)
    worth = gains.works[options_] / (1.0 if apart else slowdown) + gains.sits[options_]
    return quotas, worth, options_


def _maximal(tables: Sequence[Table], whole: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Worths and options of every split that leaves no stage room for its next larger quota."""
    first = [np.arange(len(table[0])) for table in tables[:-1]]
    grid = [g.ravel() for g in np.meshgrid(*first, indexing="ij")] if first else []
    used = sum((t[0][g] for t, g in zip(tables, grid, strict=False)), np.zeros(1, np.int64))
    last = np.searchsorted(tables[-1][0], whole - used, side="right") - 1
    picks = [*grid, last]
    left = whole - used - tables[-1][0][np.maximum(last, 0)]
    good = last >= 0
    for (quotas, _, _), pick in zip(tables, picks, strict=True):
        beyond = np.append(quotas, np.iinfo(np.int64).max // 2)
        good = good & (beyond[pick + 1] - quotas[np.maximum(pick, 0)] > left)
    picks = [np.broadcast_to(pick, good.shape)[good] for pick in picks]
    value = sum((t[1][p] for t, p in zip(tables, picks, strict=True)), np.zeros(1))
    return np.asarray(value), np.stack(
        [t[2][p] for t, p in zip(tables, picks, strict=True)], axis=1
    )


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
    """Of each choice of batches: worth and options of the best split, [choices(, stages)]."""
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
