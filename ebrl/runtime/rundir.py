"""The run directory: everything about one run, and one run only.

Invariant: two runs never write into one directory; the lock is the kernel's, so a run that was
killed leaves none behind.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from ebrl.errors import RunError

PLAN, SUMMARY, PROGRESS, EVENTS, LOGS, CHECKPOINT = (
    "plan.json",
    "summary.json",
    "progress.jsonl",
    "events.jsonl",
    "logs",
    "checkpoint",
)
PLANS = "plans"  # the history of a run that plans again
GIVEN = "plan-given.json"  # where a resumed run goes on with another plan than it was given


class RunDirectory:
    """A locked directory: plan.json, progress.jsonl, TensorBoard files, logs/, checkpoint/."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            (path / LOGS).mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise RunError(
                "logdir-unwritable",
                f"cannot write into the run directory: {error.strerror}",
                where=str(path),
                hint="give another with --logdir DIR",
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise RunError(
                "logdir-busy",
                "another run is writing into this directory",
                where=str(path),
                hint="give another with --logdir DIR, or wait for that run to end",
            ) from error

    def log(self, worker: str) -> Path:
        """The worker's log file: "simulate 0" → logs/simulate-0.log."""
        return self.path / LOGS / f"{worker.replace(' ', '-')}.log"

    def close(self) -> None:
        (self.path / ".lock").unlink(missing_ok=True)
        os.close(self._lock)


def default_path(graph: str) -> Path:
    """runs/<graph>-<date>-<time>, in the current directory."""
    return Path("runs") / f"{graph}-{time.strftime('%Y%m%d-%H%M%S')}"
