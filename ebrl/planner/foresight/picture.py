"""Schedules side by side as bars: other systems, ablations, ours, and the bound as a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ebrl.errors import PlanError
from ebrl.planner.foresight.compare import Comparison, Row
from ebrl.planner.foresight.strategies import OTHERS

INK, FAINT = "#333333", "#dddddd"
OTHER, ABLATION, OURS = "#9aa5b1", "#8fb8de", "#1f6fb2"
OTHER_NAMES = {make.__name__.replace("_", "-") for make in OTHERS}
FORMATS = (".svg", ".png", ".pdf")


def check(path: Path) -> None:
    """Raises PlanError where the name says no format that can be written, or nobody can write."""
    if path.suffix.lower() not in FORMATS:
        raise PlanError(
            "picture-format",
            f"{path.name} names no format of a picture",
            where="--picture",
            hint=f"end it with {', '.join(FORMATS)}",
        )
    if not path.parent.is_dir():
        raise PlanError(
            "picture-unwritable", f"there is no folder {path.parent}", where="--picture"
        )


def draw(comparison: Comparison, path: Path, title: str) -> None:
    """Write the picture; its format is the file's ending."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in comparison.rows if row.strategy != "bound"]
    bound = next(row for row in comparison.rows if row.strategy == "bound")
    with rc_context({"svg.hashsalt": "ebrl", "font.size": 10, "svg.fonttype": "none"}):
        figure = Figure(figsize=(8.0, 0.45 * len(rows) + 1.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for place, row in enumerate(rows):
            _bar(axes, place, row)
        limit = bound.throughput_env_steps_per_s or 1.0
        axes.axvline(limit, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        axes.text(limit, -0.75, f" bound {limit:,.0f}", color=INK, va="center", ha="right")
        axes.set_yticks(range(len(rows)), [row.strategy for row in rows])
        axes.set_ylim(len(rows) - 0.4, -1.1)
        axes.set_xlim(0, 1.16 * max([limit, *(r.throughput_env_steps_per_s or 0 for r in rows)]))
        axes.set_xlabel("environment steps/s, simulated")
        axes.set_title(title, loc="left", color=INK)
        axes.tick_params(length=0, colors=INK)
        axes.grid(axis="x", color=FAINT, linewidth=0.8)
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=150)


def _bar(axes: Any, place: int, row: Row) -> None:
    rate = row.throughput_env_steps_per_s
    if rate is None:
        axes.text(0, place, f" {row.placement}", va="center", color=INK)
        return
    colour = OTHER if row.strategy in OTHER_NAMES else OURS if row.strategy == "ours" else ABLATION
    error = None
    if row.confidence_env_steps_per_s is not None:
        low, high = row.confidence_env_steps_per_s
        error = [[max(0.0, rate - low)], [max(0.0, high - rate)]]
    axes.barh(
        place,
        rate,
        height=0.62,
        color=colour,
        xerr=error,
        error_kw={"ecolor": INK, "elinewidth": 1},
    )
    text = f"{rate:,.0f}" + (f"  {row.speedup:.2f}×" if row.speedup is not None else "")
    end = row.confidence_env_steps_per_s[1] if row.confidence_env_steps_per_s else rate
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    axes.text(max(rate, end), place, f" {text} ", va="center", color=INK, bbox=paper)
