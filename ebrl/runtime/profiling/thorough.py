"""From a checked graph to a profile file: the sweep, its journal, its progress, its picture.

Invariant: an interruption loses at most the slice it falls into; the profile is written whole or
not at all, and only then is the journal given up.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ebrl.errors import PlanError
from ebrl.planner import profile
from ebrl.planner.hardware import Cluster
from ebrl.planner.plan import Program
from ebrl.runtime.profiling import grid, show
from ebrl.runtime.profiling.calibrate import key
from ebrl.runtime.profiling.journal import Journal
from ebrl.runtime.profiling.sweep import Measured, Sweep

MEASURABLE = ["generate", "simulate", "train"]
PATIENCE_S = 20.0  # that one update may take before it is cut short and scaled
PLAIN_EVERY_S = 10.0


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants."""

    output: Path
    budget_s: float
    precision: float
    fresh: bool = False


def profile_graph(program: Program, graph: Path, cluster: Cluster, orders: Orders) -> Measured:
    """Measure, write the profile and its picture. PlanError where that cannot be done here."""
    _measurable(program, cluster)
    here = grid.site(cluster)
    journal = Journal(
        orders.output.with_name(f"{orders.output.name}.slices"),
        key(program, 0.0),
        fresh=orders.fresh,
    )
    written = False
    try:
        with _Bar(orders.budget_s) as bar:
            measured = Sweep(
                program,
                cluster,
                here,
                grid.requests(program, graph, here, patience_s=PATIENCE_S),
                budget_s=orders.budget_s,
                precision=orders.precision,
                journal=journal,
                say=bar.show,
            ).run()
        _write(measured, orders.output, program.name)
        written = True
    finally:
        journal.close(done=written)
    return measured


def picture_of(output: Path) -> Path:
    """Where the picture of a profile lies."""
    return output.with_suffix(".png")


def _write(measured: Measured, path: Path, name: str) -> None:
    data = profile.encode(profile.of(measured.points, f"ebrl profile of {name}", measured.together))
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        os.replace(draft, path)
        show.draw(measured, picture_of(path), title=name)
    except OSError as error:
        raise PlanError(
            "profile-unwritable",
            f"cannot write the profile: {error.strerror}",
            where=str(path),
            hint="name another file with -o; what was measured is kept beside it",
        ) from error


def _measurable(program: Program, cluster: Cluster) -> None:
    if not cluster.local:
        raise PlanError(
            "profile-elsewhere",
            f"stages are measured where they run, and {cluster.text!r} is not this machine",
            where="--cluster",
            hint="run `ebrl profile GRAPH --cluster local` on a node of it, and plan with the file",
        )
    kinds = sorted(stage.kind for stage in program.stages)
    if kinds != MEASURABLE or program.environment is None or program.training is None:
        raise PlanError(
            "profile-stages",
            "one simulate, one generate and one train stage can be measured; "
            f"this graph has {', '.join(kinds)}",
            where=program.path,
            hint="plan with declared work(), or with a profile of your own",
        )


class _Bar:
    """Progress on stderr: a bar on a terminal, else a line now and then."""

    def __init__(self, budget_s: float) -> None:
        console = Console(stderr=True)
        self._budget_s = budget_s
        self._printed = 0.0
        self._console = console
        self._bar = (
            Progress(
                TextColumn("measuring"),
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:3.0f}%"),
                TimeRemainingColumn(),
                TextColumn("{task.description}"),
                console=console,
                transient=True,
            )
            if console.is_terminal
            else None
        )
        self._task = None if self._bar is None else self._bar.add_task("", total=1.0)

    def __enter__(self) -> _Bar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, what: str, part: float) -> None:
        """What is being measured, and the part of the budget that is spent."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=part, description=what)
            return
        now = time.monotonic()
        if now - self._printed >= PLAIN_EVERY_S:
            self._printed = now
            left = (1 - part) * self._budget_s
            self._console.print(
                f"measuring {100 * part:3.0f}%  at most {left:.0f} s left  {what}",
                highlight=False,
                markup=False,
            )
