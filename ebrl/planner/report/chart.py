"""Line charts of the report: a small picture a quantity, by matplotlib, in the page's colours.

Invariant: a chart says what its axes are and in which unit, and draws every value it is given; of
more values than pixels, a line of means inside the band from the least to the greatest.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ebrl.planner.report.inline import COLOURS, inline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 300
WIDE, SMALL = (5.4, 2.7), (3.5, 1.9)  # inches of 72 px


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Values over x; None leaves a gap."""

    x: Sequence[float]
    y: Sequence[float | None]
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A horizontal line: what was predicted, or a bound."""

    y: float
    name: str
    colour: str = "predicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What is along an axis. `low` and `high` are shown whatever the values are."""

    label: str
    low: float | None = None
    high: float | None = None
    whole: bool = False  # ticks at whole numbers only


def chart(
    lines: Sequence[Line],
    *,
    name: str,
    title: str,
    description: str,
    x: Axis,
    y: Axis,
    levels: Sequence[Level] = (),
    size: tuple[float, float] = WIDE,
) -> str:
    """A picture to put into the page; `name` is unique on it."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 9}):
        figure = Figure(figsize=size, layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.subplots()
        for line in lines:
            _draw(axes, line)
        for level in levels:
            _level(axes, level)
        _dress(axes, x, y)
        _name_levels(axes, levels)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return inline(buffer.getvalue(), name=name, title=title, description=description)


def _draw(axes: Axes, line: Line) -> None:
    xs, means, lows, highs = thin(line.x, line.y)
    colour = COLOURS[line.colour]
    if lows != highs:
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.18, linewidth=0)
    known = sum(not math.isnan(value) for value in means)
    axes.plot(
        xs,
        means,
        color=colour,
        linewidth=1.6,
        solid_joinstyle="round",
        marker="o" if known == 1 else None,
        markersize=4,
    )


def _level(axes: Axes, level: Level) -> None:
    axes.axhline(level.y, color=COLOURS[level.colour], linewidth=1.3, linestyle=(0, (5, 3)))


def _dress(axes: Axes, x: Axis, y: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.patch.set_visible(False)
    axes.set_xlabel(x.label, fontsize=9)
    axes.set_title(y.label, loc="left", fontsize=9, pad=6)
    axes.grid(axis="y", color=COLOURS["rule"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(COLOURS["rule"])
    axes.tick_params(color=COLOURS["rule"], length=3)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.01, y=0.08)
    for side, axis in (("x", x), ("y", y)):
        low, high = axes.get_xlim() if side == "x" else axes.get_ylim()
        set_limits = axes.set_xlim if side == "x" else axes.set_ylim
        if axis.high is not None:
            high = max(high, axis.high)
        if axis.low is not None:
            low = axis.low
        set_limits(low, high if high > low else low + 1)
        drawn = axes.xaxis if side == "x" else axes.yaxis
        steps = [1, 2, 5, 10] if axis.whole else [1, 2, 2.5, 5, 10]
        most = 5 if side == "x" else 4
        drawn.set_major_locator(MaxNLocator(most, steps=steps, integer=axis.whole))
        drawn.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))


def _name_levels(axes: Axes, levels: Sequence[Level]) -> None:
    low, high = axes.get_ylim()
    for level in levels:
        above = level.y < low + 0.9 * (high - low)
        axes.annotate(
            level.name,
            (1.0, level.y),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 4 if above else -4),
            textcoords="offset points",
            ha="right",
            va="bottom" if above else "top",
            color=COLOURS[level.colour],
            fontsize=9,
        )


def tick(value: float) -> str:
    """A number at an axis: 0, 0.25, 1,500, 20k, 1.5M."""
    if value == 0:
        return "0"
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            scaled = value / (1e3 if unit == "k" else factor)
            return f"{scaled:.4g}{unit}".replace("-", "\u2212")
    text = f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return text.replace("-", "\u2212")


def thin(
    x: Sequence[float], y: Sequence[float | None], most: int = MOST_POINTS
) -> tuple[list[float], list[float], list[float], list[float]]:
    """At most `most` places: x, and the mean, least and greatest value there (NaN: none)."""
    length = len(x)
    buckets = min(length, most)
    edges = [length * number // buckets for number in range(buckets + 1)] if buckets else []
    xs, means, lows, highs = [], [], [], []
    for begin, end in itertools.pairwise(edges):
        known = [value for value in y[begin:end] if value is not None]
        xs.append(math.fsum(x[begin:end]) / (end - begin))
        means.append(math.fsum(known) / len(known) if known else math.nan)
        lows.append(min(known, default=math.nan))
        highs.append(max(known, default=math.nan))
    return xs, means, lows, highs
