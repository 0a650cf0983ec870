"""The optimum by trying everything: every option of every stage on every device.

Shares no code with the model but the data it reads. Where stages take turns on a device, how much
each gets is a small linear program of its own; it is only solved where it could matter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import highspy
import numpy as np
from numpy.typing import NDArray

from ebrl.planner.model.options import Option
from ebrl.planner.model.space import Space

CLOSE = 1e-7  # relative: a linear program is not more exact than about this
Way = tuple[tuple[Option, ...], float, bool]  # options on one device, slowdown, do they take turns?


def ways(space: Space, k: int) -> list[Way]:
    """Every way to use one device, idle included."""
    each = space.classes[k]
    device = each.node.device
    assert device is not None
    by_stage = [
        [None, *(o for o in each.on_device if o.stage == demand.name)] for demand in space.demands
    ]
    found: list[Way] = []
    for chosen in itertools.product(*by_stage):
        options = tuple(option for option in chosen if option is not None)
        if sum(option.memory_bytes for option in options) > device.memory_bytes:
            continue
        names = frozenset(option.stage for option in options)
        if sum(option.sms for option in options) <= device.sms:
            found.append((options, space.slowdowns.of(names), False))
        if len(options) > 1 and all(option.sms == device.sms for option in options):
            found.append((options, space.slowdowns.of(names, turns=True), True))
    return found


def best(space: Space) -> float:
    """Environment steps a second of the best plan on one node with devices alone."""
    (each,) = space.classes
    every = ways(space, 0)
    chosen = np.array(
        list(itertools.combinations_with_replacement(range(len(every)), each.node.devices))
    )
    chosen = chosen[_allowed(space, every, chosen)]
    limits = _rates(space, every, chosen)
    incumbent = 0.0
    for row in np.argsort(-limits, kind="stable"):
        if limits[row] <= incumbent:
            break
        devices = tuple(every[i] for i in chosen[row])
        limit = float(limits[row])
        if any(turns for _, _, turns in devices) or _crowded(space, devices):
            limit = _shared(space, devices)
        incumbent = max(incumbent, limit)
    return incumbent


def _sum(
    every: Sequence[Way], chosen: NDArray[np.int64], stage: str, value: Callable[[Option], float]
) -> NDArray[np.float64]:
    """Of each assignment, the sum of a value over the stage's options."""
    each = np.array(
        [math.fsum(value(o) for o in options if o.stage == stage) for options, _, _ in every]
    )
    return np.asarray(each[chosen].sum(axis=1))


def _allowed(space: Space, every: Sequence[Way], chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Is there a number of environments that fills every seat of the loop and that fits, and may
    the learner have these ranks?"""
    least = np.full(len(chosen), float(space.environments[0]))
    most = np.full(len(chosen), float(space.environments[1]))
    allowed = np.ones(len(chosen), bool)
    for demand in space.demands:
        if demand.loop:
            wanted = _sum(
                every, chosen, demand.name, lambda o: o.resident or o.batch * space.groups
            )
            least = np.maximum(least, wanted)
        if demand.holds:
            most = np.minimum(most, _sum(every, chosen, demand.name, lambda o: o.resident))
        if demand.learns and space.mode is not None:
            ranks = _sum(every, chosen, demand.name, lambda o: 1.0)
            shares = _sum(every, chosen, demand.name, lambda o: o.batch)
            allowed &= (space.mode.shards <= ranks) & (ranks <= space.mode.ranks)
            allowed &= shares <= space.mode.batch
    return allowed & (least <= most)


def _rates(space: Space, every: Sequence[Way], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Environment steps a second of each assignment, were everybody always busy."""
    rate = np.full(len(chosen), np.inf)
    for demand in space.demands:
        each = np.array(
            [
                math.fsum(o.batch / o.seconds for o in options if o.stage == demand.name) / slow
                for options, slow, _ in every
            ]
        )
        mine = each[chosen].sum(axis=1) / demand.items
        if demand.learns and space.mode is not None:
            with np.errstate(divide="ignore"):
                mine = 1 / (1 / mine + space.mode.overhead_s / space.mode.batch)
        rate = np.minimum(rate, mine)
    return rate


def _crowded(space: Space, devices: Sequence[Way]) -> bool:
    """Could the environments in flight limit this?"""
    loop = {demand.name for demand in space.demands if demand.loop}
    seats = sum(o.batch for options, _, _ in devices for o in options if o.stage in loop)
    return seats > min(space.environments[1], space.in_flight)


def _shared(space: Space, devices: Sequence[Way]) -> float:
    """The best shares of time: a linear program, but for the learner's overhead, whose
    concave curve is met by tangents. Each program's rate bounds the best from above, and what the
    curve gives there can be had; where the two meet, or the bound falls no more, that is the best.
    """
    overhead = space.mode.overhead_s / space.mode.batch if space.mode is not None else 0.0
    tangents = [(1.0, 0.0)]
    had, bound = 0.0, math.inf
    while True:
        rate, learner = _shares(space, devices, tangents)
        real = learner / (1 + learner * overhead)
        had = max(had, min(rate, real))
        if rate <= had * (1 + CLOSE) or rate >= bound * (1 - CLOSE / 100):
            return had
        bound = rate
        slope = 1 / (1 + learner * overhead) ** 2
        tangents.append((slope, real - slope * learner))


def _shares(
    space: Space, devices: Sequence[Way], tangents: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """(rate, learner's items a step) of the best shares, under these tangents."""
    program = highspy.Highs()
    program.setOptionValue("output_flag", False)
    program.setOptionValue("threads", 1)
    program.setOptionValue("primal_feasibility_tolerance", 1e-9)
    program.setOptionValue("dual_feasibility_tolerance", 1e-9)
    inf = highspy.kHighsInf
    rate, learner, columns = 0, 1, dict[tuple[int, int], int]()
    program.addCol(-1.0, 0.0, inf, 0, [], [])
    program.addCol(0.0, 0.0, inf, 0, [], [])
    for d, (options, slowdown, turns) in enumerate(devices):
        for i, _ in enumerate(options):
            columns[d, i] = 2 + len(columns)
            program.addCol(0.0, 0.0, 1 / slowdown, 0, [], [])
        if turns:
            mine = np.array([columns[d, i] for i in range(len(options))])
            program.addRow(-inf, 1 / slowdown, len(mine), mine, np.ones(len(mine)))
    flight: dict[int, float] = {}
    for demand in space.demands:
        learns = demand.learns and space.mode is not None
        terms = {learner if learns else rate: -demand.items}
        for (d, i), column in columns.items():
            option = devices[d][0][i]
            if option.stage == demand.name:
                terms[column] = option.batch / option.seconds
                if demand.loop:
                    flight[column] = float(option.batch)
        program.addRow(0.0, inf, len(terms), np.array(list(terms)), np.array(list(terms.values())))
    limit = min(space.environments[1], space.in_flight)
    program.addRow(
        -inf, limit, len(flight), np.array(list(flight)), np.array(list(flight.values()))
    )
    if space.mode is not None:
        for slope, constant in tangents:
            program.addRow(-inf, constant, 2, np.array([rate, learner]), np.array([1.0, -slope]))
    program.run()
    values = program.getSolution().col_value
    return values[rate], values[learner]
