"""The curves of a run: learning, throughput beside its prediction, staleness, training's own.

Invariant: throughput is computed here from steps and seconds, over a window that is the same all
along, so a first update that came quickly after another makes no spike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec

from ebrl.planner.plan import Plan
from ebrl.planner.report.chart import SMALL, WIDE, Axis, Level, Line, chart
from ebrl.planner.report.rundir import Row, RunRecord
from ebrl.planner.report.words import number

WINDOW_S = 10.0
MOST_METRICS = 12
RECENT = 100  # episodes that the runtime's means are taken over
STEPS = Axis(label="environment steps")
KNOWN = frozenset(
    {
        "seconds",
        "env_steps",
        "version",
        "episodes",
        "ep_rew_mean",
        "ep_len_mean",
        "success_once",
        "env_steps_per_s",
        "staleness_mean",
        "staleness_max",
    }
)


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A chart with its heading and, where it needs one, a word on how to read it."""

    title: str
    svg: str
    note: str = ""


def curves(plan: Plan, run: RunRecord) -> tuple[Picture, ...]:
    """What the run came to, over time."""
    rows = run.rows
    found = [
        _over_steps(
            rows, "success_once", "Success", f"share of the last {RECENT} episodes", low=0, high=1
        ),
        _over_steps(rows, "ep_rew_mean", "Return", f"mean of the last {RECENT} episodes"),
        _throughput(plan, rows),
        _staleness(plan, rows),
    ]
    return tuple(each for each in found if each is not None)


def metrics(run: RunRecord) -> tuple[Picture, ...]:
    """Small multiples of everything else that the learner reports, in its order."""
    names = [
        key
        for key in dict.fromkeys(key for row in run.rows for key in row)
        if key not in KNOWN and any(_value(row, key) is not None for row in run.rows)
    ]
    pictures = []
    for key in names[:MOST_METRICS]:
        name = key.rpartition("/")[2].replace("_", " ")
        picture = _over_steps(run.rows, key, name, "", size=SMALL)
        pictures += [picture] if picture is not None else []
    return tuple(pictures)


def _over_steps(
    rows: Sequence[Row],
    key: str,
    title: str,
    unit: str,
    *,
    low: float | None = None,
    high: float | None = None,
    size: tuple[float, float] = WIDE,
) -> Picture | None:
    values = [_value(row, key) for row in rows]
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Picture(
        title=title,
        svg=chart(
            [Line(x=[row["env_steps"] for row in rows], y=values, colour="accent")],
            name="chart-" + re.sub(r"\W+", "-", key.lower()),
            title=f"{title} over environment steps",
            description=f"{title} goes from {number(known[0])} to {number(known[-1])}; least "
            f"{number(min(known))}, greatest {number(max(known))}.",
            x=STEPS,
            y=Axis(label=unit, low=low, high=high),
            size=size,
        ),
    )


def _throughput(plan: Plan, rows: Sequence[Row]) -> Picture | None:
    window = max(min(WINDOW_S, rows[-1]["seconds"] / 5), 1e-9) if rows else WINDOW_S
    times, rates = rates_over(rows, window)
    if not times:
        return None
    predicted = plan.prediction.throughput_env_steps_per_s
    return Picture(
        title="Throughput",
        note=f"Trained steps, over windows of {number(window)} s.",
        svg=chart(
            [Line(x=times, y=rates, colour="accent")],
            name="chart-throughput",
            title="Throughput over time, with the prediction",
            description=f"Between {number(min(rates))} and {number(max(rates))} environment steps "
            f"a second, where {number(predicted)} were predicted.",
            x=Axis(label="seconds since the first step", low=0),
            y=Axis(label="environment steps/s", low=0, high=1.15 * predicted),
            levels=[Level(y=predicted, name=f"predicted {number(predicted)}")],
        ),
    )


def rates_over(rows: Sequence[Row], window_s: float) -> tuple[list[float], list[float]]:
    """Trained steps per second at each row that has a whole window behind it."""
    times: list[float] = []
    rates: list[float] = []
    begin = 0
    for end, row in enumerate(rows):
        while begin < end and rows[begin + 1]["seconds"] <= row["seconds"] - window_s:
            begin += 1
        passed = row["seconds"] - rows[begin]["seconds"]
        gained = row["env_steps"] - rows[begin]["env_steps"]
        if passed >= window_s and gained >= 0:
            times.append(row["seconds"])
            rates.append(gained / passed)
    return times, rates


def _staleness(plan: Plan, rows: Sequence[Row]) -> Picture | None:
    mean = [_value(row, "staleness_mean") for row in rows]
    most = [_value(row, "staleness_max") for row in rows]
    known = [value for value in (*mean, *most) if value is not None]
    if not known:
        return None
    steps = [row["env_steps"] for row in rows]
    bound = plan.max_staleness
    return Picture(
        title="Staleness",
        note="Of the steps of each update: their mean, and in grey the greatest.",
        svg=chart(
            [
                Line(x=steps, y=most, colour="grey"),
                Line(x=steps, y=mean, colour="accent"),
            ],
            name="chart-staleness",
            title="Staleness of what was trained on, over environment steps",
            description=f"At most {number(max(known))} policy versions, where the plan allows "
            f"{bound}.",
            x=STEPS,
            y=Axis(label="policy versions", low=0, high=1.25 * bound + 0.25, whole=True),
            levels=[Level(y=bound, name=f"allowed {bound}", colour="predicted")],
        ),
    )


def _value(row: Row, key: str) -> float | None:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
