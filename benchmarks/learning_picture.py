"""Curves of `benchmarks.learning`: for each task and η, the seeds' median and their range.

    python -m benchmarks.learning_picture FILE… [-o docs/images/learning.svg]

Prints where each η ends beside the synchronous seeds, as a table for docs/learning.md.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.learning import TASKS, finished

COLOURS = {0: "#4d4d4d", 1: "#1f77b4", 2: "#2ca02c", 4: "#d95f02"}
LABELS = {"ep_rew_mean": "mean return", "success_once": "success"}
GRID = 200  # places on the axis of steps


def curves(runs: Sequence[dict[str, Any]], steps: int) -> tuple[Any, Any]:
    """Steps [GRID] and the seeds' scores [seeds, GRID], each interpolated."""
    places = np.linspace(0, steps, GRID)
    scores = []
    for run in runs:
        at, _, score = np.array(run["curve"], float).T
        scores.append(np.interp(places, at, score, left=np.nan))
    return places, np.array(scores)


def table(runs: Sequence[dict[str, Any]], task: str) -> list[str]:
    """One row an η: seeds, the score at the end, how stale the data was, what was thrown away."""
    rows = []
    for eta in sorted({run["eta"] for run in runs}):
        mine = [run for run in runs if run["eta"] == eta]
        ends = [run[TASKS[task].score] for run in mine]
        stale = statistics.fmean(run["staleness"]["mean"] for run in mine)
        lost = statistics.fmean(run["discarded"] / run["steps"] for run in mine)
        rows.append(
            f"| {task} | {eta} | {len(mine)} | {statistics.median(ends):.2f} | "
            f"{min(ends):.2f} to {max(ends):.2f} | {stale:.2f} | {lost:.2%} |"
        )
    return rows


def draw(tasks: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """One panel a task."""
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "ebrl"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(tasks), figsize=(4.2 * len(tasks), 3.4), layout="constrained", squeeze=False
    )
    for axis, (task, runs) in zip(axes[0], tasks.items(), strict=True):
        for eta in sorted({run["eta"] for run in runs}):
            mine = [run for run in runs if run["eta"] == eta]
            places, scores = curves(mine, TASKS[task].steps)
            known = ~np.isnan(scores).any(axis=0)
            colour = COLOURS.get(eta, "#999999")
            places, scores = places[known] / 1000, scores[:, known]
            axis.fill_between(
                places, scores.min(axis=0), scores.max(axis=0), color=colour, alpha=0.15, lw=0
            )
            axis.plot(places, np.median(scores, axis=0), color=colour, label=f"η = {eta}")
        axis.set_title(f"{task} ({len({run['seed'] for run in runs})} seeds)")
        axis.set_xlabel("thousand environment steps")
        axis.set_ylabel(LABELS[TASKS[task].score])
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, loc="lower right")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Print the table and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/images/learning.svg"))
    options = parser.parse_args()
    runs = [run for path in options.files for run in finished(path)]
    tasks = {task: [run for run in runs if run["task"] == task] for task in TASKS}
    tasks = {task: found for task, found in tasks.items() if found}
    print("| task | η | seeds | end, median | end, range | staleness, mean | thrown away |")
    print("|---|---|---|---|---|---|---|")
    for task, found in tasks.items():
        print("\n".join(table(found, task)))
    draw(tasks, options.output)


if __name__ == "__main__":
    main()
