"""Has a stage become slower, or everything, or is it noise?

Each stage's series is the log of what an item costs over what the profile says at that batch; a
cumulative sum of each (`cusum`) says when its mean has changed. A change of one stage is drift. A
change of all of them, the same way and by about as much, is contention (a neighbour, a clock that
was throttled): then the part that all share is told apart from what remains of each. Cores that
others took show at once, and only there: stages count CPU time, which a neighbour hardly lengthens.

Invariant: over all stages together, a run whose times do not change is called drifted at most once
in `FALSE_ALARM_S` on average (Siegmund's approximation; the simulation in the tests agrees).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from ebrl.planner.plan import Plan
from ebrl.planner.profile import Point
from ebrl.runtime.watch.cusum import FEWEST, Cusum
from ebrl.runtime.watch.expect import Expectation
from ebrl.runtime.watch.window import Window

FALSE_ALARM_S = 86_400.0
MATTERS = 0.10  # relative change of a stage's time
ALIKE = 2.0  # times: changes of all stages within this of each other are one change
TAKEN = 0.35  # cores that others must take to be told of
HOLD_S = 4.0  # so long

Kind = Literal["none", "drift", "contention"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`factors`: of each stage, its time now over the profile's, contention not included;
    `common`: the part that all stages share; `foreign`: cores that others keep busy."""

    kind: Kind
    factors: dict[str, float]
    common: float = 1.0
    foreign: float = 0.0
    tested: bool = False  # whether every stage was known well enough to be tested
    text: str = ""


class Detector:
    """Of one plan. `add` windows, ask for the `finding`, `rebase` when another plan is adopted."""

    def __init__(self, plan: Plan, points: Sequence[Point], *, window_s: float) -> None:
        stages = [stage.name for stage in plan.stages]
        run_length = FALSE_ALARM_S / window_s * len(stages)
        self._cores = sum(node.cores * node.count for node in plan.cluster.nodes)
        self._series = {
            name: Cusum(shift=math.log1p(MATTERS), run_length=run_length) for name in stages
        }
        self._expected = Expectation(plan, points)
        self._taken_s = self._free_s = 0.0
        self._foreign = 0.0
        self._borne = 0.0  # foreign cores that the plan knows of

    def add(self, window: Window) -> None:
        for name, seen in window.stages.items():
            if name in self._series:
                cost = math.log(max(seen.work_s, 1e-12))
                self._series[name].add(cost - self._expected.log_item(name, seen.batch))
        rate = min(1.0, window.seconds / HOLD_S)
        self._foreign += rate * (window.foreign - self._foreign)
        changed = abs(self._foreign - self._borne) > TAKEN
        self._taken_s = self._taken_s + window.seconds if changed else 0.0

    def finding(self) -> Finding:
        """What the windows so far say."""
        offsets = {name: series.level for name, series in self._series.items()}
        known = [name for name, series in self._series.items() if series.tested >= FEWEST]
        alarms = {
            name
            for name, series in self._series.items()
            if name in known
            and abs(offsets[name]) > math.log1p(MATTERS / 2)
            and (series.alarm or self._off(name))
        }
        taken = self._foreign if self._taken_s >= HOLD_S else self._borne
        common = _common([offsets[name] for name in known]) if alarms else 0.0
        if abs(common) < math.log1p(MATTERS):
            common = 0.0
        factors = {
            name: math.exp(offsets[name] - common) if name in alarms else 1.0 for name in offsets
        }
        lone = {n: f for n, f in factors.items() if abs(math.log(f)) > math.log1p(MATTERS)}
        kind: Kind = "none"
        if common or abs(taken - self._borne) > TAKEN:
            kind = "contention"
        if lone:
            kind = "drift"
        if kind == "none":
            factors = dict.fromkeys(factors, 1.0)
        return Finding(
            kind=kind,
            factors=factors,
            common=math.exp(common),
            foreign=taken,
            tested=len(known) == len(self._series),
            text=_words(kind, lone, math.exp(common), taken, self._borne),
        )

    def rebase(self, plan: Plan, points: Sequence[Point], foreign: float) -> None:
        """Another profile is believed from now on; what is normal is learnt anew."""
        self._expected = Expectation(plan, points)
        for series in self._series.values():
            series.reset()
        self._borne = foreign
        self._taken_s = 0.0

    def _off(self, name: str) -> bool:
        """Constantly apart from the profile by more than what matters, beyond its own noise."""
        if name not in self._expected.measured:
            return False  # an estimate: only a change of what is seen tells anything
        series = self._series[name]
        error = 3 * series.sigma / math.sqrt(max(series.tested, 1))
        return abs(series.mean) - error > math.log1p(MATTERS)


def _common(offsets: Sequence[float]) -> float:
    """The change that all stages share: the least of them, where all went the same way by about as
    much; else none."""
    sizes = [abs(each) for each in offsets]
    same = len({each > 0 for each in offsets}) == 1
    if len(offsets) < 2 or not same or max(sizes) > ALIKE * min(sizes):
        return 0.0
    return math.copysign(sorted(sizes)[(len(sizes) - 1) // 2], offsets[0])


def _words(kind: Kind, lone: dict[str, float], common: float, foreign: float, borne: float) -> str:
    parts = [f"{name} takes {factor:.2f} times its profile" for name, factor in lone.items()]
    if abs(math.log(common)) > 0:
        parts.append(f"everything takes {common:.2f} times as long")
    if abs(foreign - borne) > TAKEN:
        parts.append(f"others keep {foreign:.1f} cores busy")
    return ", ".join(parts) if kind != "none" else "as planned"
