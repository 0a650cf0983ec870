"""Has a stage become slower, or everything, or is it noise?

Each stage's series is the log of what an item costs over what the profile says at that batch; a
cumulative sum of each (`cusum`) says when its mean has changed. A change of one stage is drift. A
change of all of them, the same way and by about as much, is contention (a neighbour, a clock that
was throttled): then the part that all share is told apart from what remains of each. Cores that
others took show at once, and only there: stages count CPU time, which a neighbour hardly lengthens.
A device that is slow shows in the replicas on it, beside their stages' others on other devices; a
stage on devices is judged by its middle replica, which one slow device does not move.

Invariant: over all stages together, a run whose times do not change is called drifted at most once
in `FALSE_ALARM_S` on average (Siegmund's approximation; the simulation in the tests agrees).
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping, Sequence
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
    slow: dict[str, float] = {}  # devices ("node/3") and how much longer everything takes there
    tested: bool = False  # whether every stage was known well enough to be tested
    text: str = ""


class Detector:
    """Of one plan. `add` windows, ask for the `finding`, `rebase` when another plan is adopted."""

    def __init__(self, plan: Plan, points: Sequence[Point], *, window_s: float) -> None:
        self._plan = plan
        stages = [stage.name for stage in plan.stages]
        self._window_s = window_s
        self._cores = sum(node.cores * node.count for node in plan.cluster.nodes)
        self._series = {name: self._new_series() for name in stages}
        self._expected = Expectation(plan, points)
        self._devices: dict[str, Cusum] = {}
        self._slow: dict[str, float] = {}  # that the plan knows of
        self._foreign: deque[float] = deque(maxlen=max(1, round(HOLD_S / window_s)))
        self._taken_s = 0.0
        self._borne = 0.0  # foreign cores that the plan knows of

    def _new_series(self) -> Cusum:
        """False alarms are shared out among all series that there can be: stages and devices."""
        places = {
            (each.node, each.device)
            for stage in self._plan.stages
            for each in stage.replicas
            if each.device is not None
        }
        series = len(self._plan.stages) + (len(places) if len(places) > 1 else 0)
        run_length = FALSE_ALARM_S / self._window_s * series
        return Cusum(shift=math.log1p(MATTERS), run_length=run_length)

    def add(self, window: Window) -> None:
        placed = self._placed(window)
        for name, seen in window.stages.items():
            if name in self._series and name not in placed:
                cost = math.log(max(seen.work_s, 1e-12))
                self._series[name].add(cost - self._expected.log_item(name, seen.batch))
        self._add_devices(placed)
        self._foreign.append(window.foreign)
        changed = abs(self._taken - self._borne) > TAKEN
        self._taken_s = self._taken_s + window.seconds if changed else 0.0

    def _placed(self, window: Window) -> dict[str, list[tuple[str, float]]]:
        """By stage on devices: of each replica its device, and the log of its cost over what is
        expected there."""
        found: dict[str, list[tuple[str, float]]] = {}
        for name, seen in window.stages.items():
            if name not in self._series:
                continue
            replicas = self._plan.stage(name).replicas
            for index, (work_s, batch) in seen.parts.items():
                at = replicas[int(index)] if int(index) < len(replicas) else None
                if at is None or at.device is None:
                    continue
                device = f"{at.node}/{at.device}"
                expected = self._expected.log_item(name, batch, index)
                known = math.log(self._slow.get(device, 1.0))
                cost = math.log(max(work_s, 1e-12)) - expected - known
                found.setdefault(name, []).append((device, cost))
        return found

    def _add_devices(self, placed: dict[str, list[tuple[str, float]]]) -> None:
        apart: dict[str, list[float]] = {}
        for name, costs in placed.items():
            self._series[name].add(_middle([cost for _, cost in costs]))
            for n, (device, cost) in enumerate(costs):
                others = [each for m, (_, each) in enumerate(costs) if m != n]
                if others:
                    apart.setdefault(device, []).append(cost - _middle(others))
        for device, values in apart.items():
            if device not in self._devices:
                self._devices[device] = self._new_series()
            self._devices[device].add(sum(values) / len(values))

    @property
    def _taken(self) -> float:
        """Cores that others took lately: a burst moves it as little as a moment's rest does."""
        return statistics.median(self._foreign) if self._foreign else 0.0

    def finding(self) -> Finding:
        """What the windows so far say."""
        offsets = {name: series.level for name, series in self._series.items()}
        known = [name for name, series in self._series.items() if series.tested >= FEWEST]
        alarms = {
            name
            for name, series in self._series.items()
            if name in known
            and abs(offsets[name]) > math.log1p(MATTERS / 2)
            and (series.settled or (self._off(name) and not series.alarm))
        }
        slow = self._devices_now()
        taken = self._taken if self._taken_s >= HOLD_S else self._borne
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
        if lone or slow != self._slow:
            kind = "drift"
        if kind == "none":
            factors = dict.fromkeys(factors, 1.0)
        return Finding(
            kind=kind,
            factors=factors,
            common=math.exp(common),
            foreign=taken,
            slow=slow,
            tested=len(known) == len(self._series),
            text=_words(kind, lone, self._news(slow), math.exp(common), taken, self._borne),
        )

    def _devices_now(self) -> dict[str, float]:
        """The slow devices. One that is as fast as the others again is none."""
        found = dict(self._slow)
        for device, series in self._devices.items():
            if series.settled and abs(series.level) > math.log1p(MATTERS):
                found[device] = self._slow.get(device, 1.0) * math.exp(series.level)
                if found[device] < 1 + MATTERS:
                    del found[device]
        return found

    def _news(self, slow: Mapping[str, float]) -> dict[str, float]:
        """What of it the plan does not know."""
        now = {device: slow.get(device, 1.0) for device in {*slow, *self._slow}}
        return {d: f for d, f in sorted(now.items()) if f != self._slow.get(d, 1.0)}

    def rebase(
        self,
        plan: Plan,
        points: Sequence[Point],
        foreign: float,
        slow: Mapping[str, float] | None = None,
    ) -> None:
        """Another profile is believed from now on; what is normal is learnt anew."""
        self._plan, self._slow = plan, dict(slow or {})
        self._devices.clear()
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


def _middle(values: Sequence[float]) -> float:
    """The median, the lower of two: one slow device among two moves it as little as among eight."""
    return sorted(values)[(len(values) - 1) // 2]


def _words(
    kind: Kind,
    lone: dict[str, float],
    slow: dict[str, float],
    common: float,
    foreign: float,
    borne: float,
) -> str:
    parts = [f"{name} takes {factor:.2f} times its profile" for name, factor in lone.items()]
    parts += [f"all takes {factor:.2f} times as long on GPU {on}" for on, factor in slow.items()]
    if abs(math.log(common)) > 0:
        parts.append(f"everything takes {common:.2f} times as long")
    if abs(foreign - borne) > TAKEN:
        parts.append(f"others keep {foreign:.1f} cores busy")
    return ", ".join(parts) if kind != "none" else "as planned"
