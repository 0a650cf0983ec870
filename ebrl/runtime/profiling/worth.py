"""Which places are worth measuring: the planner is asked.

A place matters as far as the throughput of the best plan depends on it. An unmeasured place is
bounded by its measured neighbours: a batch takes no longer than a larger one and no longer than
being cut into smaller ones; twice the quota is at most twice as fast and never slower. A measured
one is bounded by its interval. The worth of a place is what the best plan's throughput differs by
between its two bounds, all others being as well as they are known. Where that is nothing, no
plan that could be the best one uses the place, and it is not looked at again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from ebrl.errors import PlanError
from ebrl.planner.compile import compile
from ebrl.planner.hardware import Cluster
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.plan import Plan, Program
from ebrl.planner.profile import Point
from ebrl.runtime.profiling.tally import Interval, Place

MATTERS = 0.005  # of the best plan's throughput
MOST_ASKED = 24  # places that the planner is asked about in one round
Times = Mapping[Place, float]


class Judge:
    """The best plan's throughput by stage times. `points` makes a profile of seconds by place."""

    def __init__(
        self, program: Program, cluster: Cluster, points: Callable[[Times], tuple[Point, ...]]
    ) -> None:
        self._program, self._cluster, self._points = program, cluster, points

    def plan(self, times: Times) -> Plan | None:
        """None where nothing fits, or too little is known to tell."""
        try:
            return compile(
                self._program,
                self._cluster,
                self._points(times),
                options=CompileOptions(alternatives=False, time_limit_s=5.0),
            )
        except PlanError:
            return None

    def throughput(self, times: Times) -> float:
        plan = self.plan(times)
        return 0.0 if plan is None else plan.prediction.throughput_env_steps_per_s

    def worths(
        self, places: Iterable[Place], known: Mapping[Place, Interval]
    ) -> dict[Place, float]:
        """Of each place, relative; those that are known worst come first and the rest, beyond
        `MOST_ASKED`, is taken to matter."""
        middle = {place: interval.middle for place, interval in known.items()}
        now = self.throughput(middle)
        bounds = {place: known.get(place) or bounded(place, known) for place in places}
        ordered = sorted(bounds, key=lambda place: -bounds[place].width)
        found = dict.fromkeys(ordered, 1.0)
        if now <= 0:
            return found
        for place in ordered[:MOST_ASKED]:
            low, _, high = bounds[place]
            best, worst = ({**middle, place: seconds} for seconds in (low, high))
            found[place] = abs(self.throughput(best) - self.throughput(worst)) / now
        return found


def bounded(place: Place, known: Mapping[Place, Interval]) -> Interval:
    """What the measured places of the same stage say about an unmeasured one."""
    low, high = 0.0, math.inf
    for other, interval in known.items():
        if other.stage != place.stage or bool(other.sms) != bool(place.sms):
            continue
        mine, others = (place.sms, other.sms) if place.sms else (place.cores, other.cores)
        if other.batch <= place.batch:
            low = max(low, interval.low * min(1.0, others / mine))
        pieces = math.ceil(place.batch / other.batch)
        high = min(high, interval.high * pieces * max(1.0, others / mine))
    if not math.isfinite(high):
        return Interval(1e-9, 1.0, 1e9)
    low = min(max(low, 1e-9), high)
    return Interval(low, math.sqrt(low * high), high)
