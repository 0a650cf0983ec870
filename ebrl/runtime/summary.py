"""What a run came to, as it is printed, written to `summary.json` and compared with its plan.

Invariant: rates count distinct trained environment steps, from the first environment step on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from ebrl.runtime.ledger import Ledger
from ebrl.runtime.progress import Scores, score

if TYPE_CHECKING:
    from ebrl.runtime.run import Run


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to. Rates count distinct trained steps from the first environment step on."""

    env_steps: int
    env_steps_per_s: float | None
    steady_env_steps_per_s: float | None  # between first and last update
    predicted_env_steps_per_s: float
    episodes: int
    ep_rew_mean: float | None
    success_once: float | None
    first: Scores  # over the first episodes, to compare with
    ledger: Ledger
    staleness: dict[str, float]
    restarts: int  # of workers
    rebuilds: int  # of single environments, after a fault
    skipped_updates: int  # that made something non-finite
    replans: int
    checkpoint: str | None
    weights_sha256: str | None
    updates: int
    seconds: float
    start_to_first_step_s: float | None
    start_to_first_update_s: float | None
    memory_bytes: int
    stages: dict[str, dict[str, float]]
    ended: str  # "done", "time limit", "failed", "SIGINT", "SIGTERM"
    run_dir: str


def summarise(run: Run, ledger: Ledger) -> Summary:
    """The summary of a run that has ended."""
    progress = run.progress
    recent = score(progress.recent)
    total, steps, most = (int(value) for value in run.slab["staleness"])
    return Summary(
        env_steps=ledger.trained,
        env_steps_per_s=progress.overall_rate(),
        steady_env_steps_per_s=progress.steady_rate(),
        predicted_env_steps_per_s=run.plan.prediction.throughput_env_steps_per_s,
        episodes=progress.episodes,
        ep_rew_mean=recent.ep_rew_mean,
        success_once=recent.success_once,
        first=score(progress.first),
        ledger=ledger,
        staleness={"mean": total / max(steps, 1), "max": most},
        restarts=run.supervisor.restarts,
        rebuilds=run.supervisor.rebuilds,
        skipped_updates=run.skipped,
        replans=run.watcher.switches,
        checkpoint=None if run.saved is None else run.saved.path,
        weights_sha256=None if run.saved is None else run.saved.weights_sha256,
        updates=0 if progress.update is None else progress.update.version,
        seconds=time.monotonic() - progress.began,
        start_to_first_step_s=_since(progress.began, progress.first_step_at),
        start_to_first_update_s=_since(progress.began, progress.first_update_at),
        memory_bytes=run.memory,
        stages=run.stage_clocks(),
        ended=run.ended,
        run_dir=str(run.directory.path),
    )


def _since(began: float, when: float | None) -> float | None:
    return None if when is None else when - began
