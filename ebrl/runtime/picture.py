"""The learning curve of a run, as a picture: return and success over steps, throughput over
time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ebrl.runtime.rundir import PROGRESS

CURVE = "curve.png"


def read_progress(run_dir: Path) -> list[dict[str, Any]]:
    """The lines of `progress.jsonl`, one an update."""
    path = run_dir / PROGRESS
    if not path.is_file():
        return []
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines() if line]


def draw(run_dir: Path, *, title: str, predicted_env_steps_per_s: float) -> Path | None:
    """Write `curve.png` into the run directory; None where no update has finished an episode."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    rows = [row for row in read_progress(run_dir) if row["ep_rew_mean"] is not None]
    if not rows:
        return None
    steps = [row["env_steps"] for row in rows]
    success = [row["success_once"] for row in rows]
    with_success = all(value is not None for value in success)
    figure = Figure(figsize=(9.5 if with_success else 6.6, 3.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 3 if with_success else 2)
    axes[0].plot(steps, [row["ep_rew_mean"] for row in rows], color="#1f5fa8")
    axes[0].set(xlabel="environment steps", title="return, mean of 100 episodes")
    if with_success:
        axes[1].plot(steps, success, color="#2a7f3f")
        axes[1].set(xlabel="environment steps", title="success_once, last 100", ylim=(0, 1.02))
    timed = [row for row in rows if row["env_steps_per_s"] is not None]
    axes[-1].plot(
        [row["seconds"] for row in timed],
        [row["env_steps_per_s"] for row in timed],
        color="#444444",
        label="measured",
    )
    axes[-1].axhline(predicted_env_steps_per_s, color="#c0392b", linestyle="--", label="predicted")
    axes[-1].set(xlabel="seconds", title="trained steps/s", ylim=(0, None))
    axes[-1].legend(frameon=False, fontsize=8)
    for each in axes[:-1]:
        each.xaxis.set_major_formatter(EngFormatter(sep=""))
    for each in axes:
        each.grid(alpha=0.25)
        each.title.set_fontsize(9)
        each.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10)
    path = run_dir / CURVE
    figure.savefig(path, dpi=150)
    return path
