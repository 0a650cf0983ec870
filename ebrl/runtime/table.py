"""The live table of a run: what people look for first, in one place that does not scroll.

Invariant: it only reads. On something that is not a terminal it becomes a plain line now and then.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ebrl.runtime.ledger import read as read_ledger
from ebrl.runtime.progress import score
from ebrl.runtime.run import Run

PLAIN_EVERY_S = 10.0


class LiveTable:
    """`with LiveTable() as table: run.execute(table.show)`. Writes to stderr."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._live = (
            Live(console=self._console, refresh_per_second=2, transient=False, auto_refresh=False)
            if self._console.is_terminal
            else None
        )
        self._printed = 0.0

    def __enter__(self) -> LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, run: Run) -> None:
        """Draw the state of the run now."""
        if self._live is not None:
            self._live.update(_panel(run), refresh=True)
            return
        now = time.monotonic()
        if now - self._printed >= PLAIN_EVERY_S:
            self._printed = now
            print(_line(run), file=sys.stderr, flush=True)


def _line(run: Run) -> str:
    progress = run.progress
    if progress.update is None:
        phase = "starting" if progress.first_step_at is None else "rolling out"
        return f"{time.monotonic() - progress.began:6.0f} s  {phase}"
    scores = score(progress.recent)
    parts = [
        f"{time.monotonic() - progress.began:6.0f} s",
        f"{progress.update.trained:>9,} steps",
        f"{_number(progress.rate(10.0), ',.0f')} steps/s",
        f"return {_number(scores.ep_rew_mean, '.2f')}",
    ]
    if scores.success_once is not None:
        parts.append(f"success_once {scores.success_once:.2f}")
    parts.append(f"staleness {progress.update.staleness_mean:.2f}")
    return "  ".join(parts)


def _panel(run: Run) -> Group:
    progress = run.progress
    scores = score(progress.recent)
    ledger = read_ledger(run.slab, run.segments)
    update = progress.update
    trained = 0 if update is None else update.trained
    rate = progress.rate(60.0) or 0.0
    target = run.options.steps
    eta = f"{(target - trained) / rate:,.0f} s left" if target and rate else ""
    elapsed = time.monotonic() - progress.began
    head = Table(box=None, pad_edge=False, show_header=False)
    head.add_column(style="dim")
    head.add_column()
    head.add_row(
        "trained",
        f"{trained:,}{f' / {target:,}' if target else ''} steps in {elapsed:,.0f} s  {eta}",
    )
    head.add_row(
        "steps/s",
        f"{_number(progress.rate(10.0), ',.0f')} over 10 s   "
        f"{_number(rate or None, ',.0f')} over 60 s   "
        f"{run.plan.prediction.throughput_env_steps_per_s:,.0f} planned",
    )
    head.add_row(
        "episodes",
        f"{progress.episodes:,}   return {_number(scores.ep_rew_mean, '.2f')}   "
        f"length {_number(scores.ep_len_mean, '.0f')}   "
        f"success_once {_number(scores.success_once, '.2f')}",
    )
    head.add_row(
        "staleness",
        "–"
        if update is None
        else f"{update.staleness_mean:.2f} mean   {update.staleness_max} max of "
        f"{run.plan.max_staleness} allowed",
    )
    head.add_row(
        "ledger",
        f"{ledger.produced:,} produced = {ledger.trained:,} trained + "
        f"{sum(ledger.discarded.values()):,} discarded + {ledger.in_flight:,} in flight",
    )
    stages = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("stage", "workers", "busy", "batch", "s a batch"):
        stages.add_column(title, justify="left" if title == "stage" else "right")
    for name, clock in run.stage_clocks().items():
        stages.add_row(
            name,
            f"{clock['workers']:.0f}",
            f"{100 * clock['busy']:.0f} %",
            f"{clock['batch']:.1f}",
            f"{clock['seconds']:.4f}",
        )
    return Group(Text(run.plan.program.name, style="bold"), head, Text(), stages)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
