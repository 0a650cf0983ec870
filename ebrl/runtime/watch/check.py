"""Has a run drifted from its plan? Told from what the run has written, while it runs or after.

Invariant: the same test that a run applies to itself, on the same windows; nothing is changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from ebrl.errors import RunError
from ebrl.planner.plan import Plan, read
from ebrl.runtime.rundir import PLAN
from ebrl.runtime.watch.around import on_cores
from ebrl.runtime.watch.decide import Decision
from ebrl.runtime.watch.drift import Detector, Finding
from ebrl.runtime.watch.expect import Expectation
from ebrl.runtime.watch.learn import updated
from ebrl.runtime.watch.watcher import DECISIONS, PLANS, RECENT, WINDOW_S, WINDOWS
from ebrl.runtime.watch.window import Window, merged

Line = TypeVar("Line", Decision, Window)
FEW = 12  # windows that a check needs


class StageDrift(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of an item lately, and what the profile says at the same batch."""

    stage: str
    batch: float
    seconds: float
    expected_s: float
    ratio: float
    wait_s: float


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """`plan` is the plan in force, `windows` those since it is."""

    drifted: bool
    finding: Finding
    stages: tuple[StageDrift, ...]
    plan: str
    windows: int
    decisions: tuple[Decision, ...]


def check(folder: Path) -> Check:
    """RunError where the directory is no run's, or the run is too young to tell."""
    if not (folder / PLAN).is_file():
        raise RunError(
            "no-run",
            "there is no run in this directory",
            where=str(folder),
            hint="name the directory that `ebrl execute` printed, or gave with --logdir",
        )
    decisions = tuple(_lines(folder / DECISIONS, Decision))
    path, plan = _in_force(folder)
    since = decisions[-1].at_s if decisions else 0.0
    windows = [w for w in _lines(folder / WINDOWS, Window) if w.at_s > since and not w.settling]
    if len(windows) < FEW:
        raise RunError(
            "run-too-young",
            f"{len(windows)} seconds were watched since the plan is in force; a check needs {FEW}",
            where=str(folder / WINDOWS),
            hint="try again later",
        )
    points = plan.profile
    detector = Detector(plan, points, window_s=WINDOW_S)
    if decisions:
        gone = decisions[-1].foreign  # which is in the plan's times, and not in those of clocks
        slower = on_cores(read(folder / PLAN).cluster, gone)
        points = updated(plan, points, {}, {}, on_cores=1 / slower)
        detector.rebase(plan, points, gone, decisions[-1].slow)
    for window in windows:
        detector.add(window)
    finding = detector.finding()
    expected = Expectation(plan, points)
    lately = windows[-RECENT:]
    seconds = sum(window.seconds for window in lately)
    rows = []
    for name, seen in sorted(merged(lately).items()):
        should = math.exp(expected.log_item(name, seen.batch))
        rows.append(
            StageDrift(
                stage=name,
                batch=seen.batch,
                seconds=seen.work_s,
                expected_s=should,
                ratio=seen.work_s / should,
                wait_s=seen.wait_s(seconds),
            )
        )
    return Check(
        drifted=finding.kind != "none",
        finding=finding,
        stages=tuple(rows),
        plan=str(path.relative_to(folder)),
        windows=len(windows),
        decisions=decisions,
    )


def _in_force(folder: Path) -> tuple[Path, Plan]:
    """The newest plan of the history, else the one that the run was started with."""
    history = sorted((folder / PLANS).glob("*.json"))
    applied = [path for path in history if not path.stem.endswith("-considered")]
    path = applied[-1] if applied else folder / PLAN
    return path, read(path)


def _lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    """Of a file that may still be written to."""
    if not path.is_file():
        return
    for line in path.read_bytes().splitlines():
        try:
            yield msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError:  # the last one, being written
            return
