"""What a run leaves behind as it goes: TensorBoard curves and one line of JSON an update.

Invariant: writing is for the reader; when the disk is full the run goes on, and says so once.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ebrl.runtime.ledger import read as read_ledger
from ebrl.runtime.messages import Updated
from ebrl.runtime.progress import score
from ebrl.runtime.rundir import PROGRESS
from ebrl.runtime.tensorboard import Curves

if TYPE_CHECKING:
    from ebrl.runtime.run import Run


class Recorder:
    """Writes into a run directory."""

    def __init__(self, folder: Path) -> None:
        self._curves = Curves(folder)
        self._lines = (folder / PROGRESS).open("ab", buffering=0)
        self._complained = False

    def updated(self, run: Run, update: Updated) -> None:
        """One update has ended."""
        progress = run.progress
        scores = score(progress.recent)
        ledger = read_ledger(run.slab, run.segments)
        curves: dict[str, float | None] = {
            "rollout/ep_rew_mean": scores.ep_rew_mean,
            "rollout/ep_len_mean": scores.ep_len_mean,
            "rollout/success_once": scores.success_once,
            "time/fps": progress.rate(10.0),
            "time/update_s": update.seconds,
            "staleness/mean": update.staleness_mean,
            "staleness/max": float(update.staleness_max),
            "ledger/produced": float(ledger.produced),
            "ledger/trained": float(ledger.trained),
            "ledger/discarded": float(sum(ledger.discarded.values())),
            "ledger/in_flight": float(ledger.in_flight),
            "plan/predicted_env_steps_per_s": run.plan.prediction.throughput_env_steps_per_s,
            "plan/measured_env_steps_per_s": progress.rate(60.0),
            **update.metrics,
        }
        for stage, clock in run.stage_clocks().items():
            curves |= {f"stage/{stage}/{key}": clock[key] for key in ("busy", "seconds", "batch")}
        line: dict[str, Any] = {
            "seconds": time.monotonic() - (progress.first_step_at or progress.began),
            "env_steps": update.trained,
            "version": update.version,
            "episodes": progress.episodes,
            "ep_rew_mean": scores.ep_rew_mean,
            "ep_len_mean": scores.ep_len_mean,
            "success_once": scores.success_once,
            "env_steps_per_s": progress.rate(10.0),
            "staleness_mean": update.staleness_mean,
            "staleness_max": update.staleness_max,
            **update.metrics,
        }
        try:
            self._curves.add(curves, update.trained)
            self._lines.write(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            if not self._complained:
                self._complained = True
                print(f"warning: metrics are not written: {error}", file=sys.stderr)

    def close(self) -> None:
        self._curves.close()
        self._lines.close()


def memory_bytes() -> int:
    """Memory of this process and everything below it: shared pages counted once (PSS)."""
    import psutil

    me = psutil.Process()
    return sum(_pss(each.pid) for each in (me, *me.children(recursive=True)))


def _pss(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        return 0
    return 0
