"""What a profiling found, for people: table rows, sentences, and a picture of throughput over
quota.

Invariant: every figure carries its interval, and what is not known well enough says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ebrl.runtime.profiling.sweep import Measured, Row
from ebrl.runtime.profiling.tally import Interval
from ebrl.runtime.profiling.worth import MATTERS

HEADINGS = ("stage", "quota", "batch", "time", "±", "items/s", "memory", "slices", "matters")
COLOURS = ("#1f5fa8", "#c0392b", "#2a7f3f", "#8e5ea2", "#b8860b", "#444444", "#1b9e9e", "#d2691e")
Line = tuple[str, list[tuple[int, Interval, int]]]  # label; quota, seconds, items
LINES = 6  # batches in one picture, at most


def cells(row: Row) -> tuple[str, ...]:
    """One place of the table. `matters`: what the plan's throughput still depends on it by."""
    place, interval = row.place, row.interval
    return (
        place.stage,
        f"{place.sms} SMs" if place.sms else f"{place.cores} core{'s' * (place.cores > 1)}",
        str(place.batch),
        seconds(interval.middle),
        f"{interval.width:.1%}",
        f"{place.batch / interval.middle:,.0f}",
        f"{row.bytes / 1e6:,.0f} MB",
        str(row.slices),
        "-" if row.worth <= MATTERS else f"{row.worth:.1%}",
    )


def told(measured: Measured, precision: float) -> list[str]:
    """What stands below the table."""
    lines = []
    for each in measured.together:
        factors = ", ".join(f"{stage} {factor:.2f}×" for stage, factor in each.factors.items())
        lines.append(f"together     {' + '.join(each.stages)}: {factors} of its time alone")
    if measured.plan is not None:
        prediction = measured.plan.prediction
        lines.append(
            f"best plan    {prediction.throughput_env_steps_per_s:,.1f} environment steps/s, "
            f"bottleneck {prediction.bottleneck}"
        )
    if measured.open:
        names = ", ".join(f"{p.stage} at batch {p.batch}" for p in measured.open[:3])
        more = f" and {len(measured.open) - 3} more" if len(measured.open) > 3 else ""
        lines.append(
            f"budget       spent after {measured.spent_s:.0f} s with {len(measured.open)} places "
            f"that matter less precise than ±{precision:.0%}: {names}{more}"
        )
    else:
        lines.append(
            f"precise      every place that matters is known to ±{precision:.0%}, "
            f"after {measured.spent_s:.0f} s"
        )
    if measured.resumed:
        lines.append(f"resumed      {measured.resumed} slices of an earlier profiling counted")
    return lines


def as_json(measured: Measured) -> dict[str, Any]:
    """The keys of `ebrl profile --json`, but for the files."""
    import msgspec

    rows = {
        (r.place.stage, r.place.sms, float(r.place.cores), r.place.batch): r for r in measured.rows
    }
    points = []
    for point in measured.points:
        entry = msgspec.to_builtins(point)
        row = rows.get((point.stage, point.sms, point.cores, point.batch))
        if row is not None:
            entry |= {"low_s": row.interval.low, "high_s": row.interval.high}
            entry |= {"slices": row.slices, "worth": row.worth, "alone_s": row.alone_s}
        points.append(entry)
    prediction = None if measured.plan is None else measured.plan.prediction
    return {
        "points": points,
        "together": msgspec.to_builtins(measured.together),
        "open": [place._asdict() for place in measured.open],
        "predicted_env_steps_per_s": prediction and prediction.throughput_env_steps_per_s,
        "resumed_slices": measured.resumed,
        "spent_s": measured.spent_s,
    }


def draw(measured: Measured, path: Path, *, title: str) -> None:
    """Items a second over the quota, one panel a stage, one line a batch, with its interval."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    stages = list(dict.fromkeys(row.place.stage for row in measured.rows))
    figure = Figure(figsize=(1.2 + 3.3 * len(stages), 3.3), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(stages), squeeze=False)[0]
    for axes, stage in zip(panels, stages, strict=True):
        rows = [row for row in measured.rows if row.place.stage == stage]
        unit = "SMs" if rows[0].place.sms else "cores"
        ticks: set[int] = set()
        for colour, (label, line) in zip(COLOURS, _lines(measured, stage, rows), strict=False):
            axes.errorbar(
                [quota for quota, _, _ in line],
                [items / interval.middle for _, interval, items in line],
                yerr=[
                    [items * (1 / each.middle - 1 / each.high) for _, each, items in line],
                    [items * (1 / each.low - 1 / each.middle) for _, each, items in line],
                ],
                marker="o",
                markersize=4,
                capsize=3,
                color=colour,
                label=label,
            )
            ticks |= {quota for quota, _, _ in line}
        axes.set(xlabel=unit, title=f"{stage}: items/s", ylim=(0, None))
        axes.set_xticks(sorted(ticks))
        axes.set_xlim(0, max(ticks) + 0.5 * min(ticks))
        axes.grid(alpha=0.25)
        axes.title.set_fontsize(9)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"{title}: throughput over quota, with 95% intervals of the median", fontsize=10
    )
    figure.savefig(path, dpi=150)


def _lines(measured: Measured, stage: str, rows: Sequence[Row]) -> list[Line]:
    """A line a batch, over the quota; of a stage that takes more cores by more processes, one line
    over their number."""
    copies = [(n, interval, n) for name, n, interval in measured.copies if name == stage]
    if copies:
        return [("a process a core", copies)]
    return [
        (
            f"batch {batch}",
            [
                (row.place.sms or row.place.cores, row.interval, batch)
                for row in rows
                if row.place.batch == batch
            ],
        )
        for batch in _some(sorted({row.place.batch for row in rows}))
    ]


def seconds(value: float) -> str:
    """Three digits and a unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def _some(batches: Sequence[int]) -> Sequence[int]:
    """At most `LINES` of them, evenly spread, the ends included."""
    if len(batches) <= LINES:
        return batches
    return sorted({batches[round(i * (len(batches) - 1) / (LINES - 1))] for i in range(LINES)})
