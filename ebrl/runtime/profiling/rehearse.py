"""A short run of the real thing, to learn what handing over costs.

A stage that is measured alone, or beside others that have nothing to do with it, finds its inputs
ready and its caches warm. In a run it is woken, wakes others, looks in vain, and comes back to
memory that the others have swept out; on a machine of few cores that is up to half of what a small
batch costs. It cannot be imitated, only run: so a provisional plan is executed for a few seconds
and the workers' own clocks are read.

What comes out is added where it belongs: a constant a firing for stages that answer batches (a wake
costs the same for one item as for many), a ratio for those that step environments one by one.
Invariant: a rehearsal that did not work, or has seen too little of a stage, changes nothing.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from ebrl.errors import PlanError
from ebrl.planner.compile import compile
from ebrl.planner.detect import local
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.plan import Plan, Program, encode
from ebrl.planner.profile import Point
from ebrl.runtime.watch.window import StageWindow, Window, merged

REHEARSED_S = 5.0  # from the first environment step on
SKIPPED = 2  # windows at the beginning
WITHIN_S = 240.0
FEWEST = {"simulate": 30, "generate": 30, "train": 3}  # firings of a stage that tell something
LIKELY = (0.5, 4.0)  # of a profile's time: beyond that, something else has happened


def rehearse(
    program: Program, points: Sequence[Point], weights_bytes: int
) -> Mapping[str, StageWindow]:
    """By stage, what a run of the best plan for this machine's cores was like; empty where it could
    not be run. Batches are items of a firing, as they come."""
    here = local()
    cores = msgspec.structs.replace(
        here, nodes=tuple(msgspec.structs.replace(n, device=None, devices=0) for n in here.nodes)
    )
    stages = tuple(
        msgspec.structs.replace(stage, weights_bytes=weights_bytes)
        if stage.kind == "generate"
        else stage
        for stage in program.stages
    )
    program = msgspec.structs.replace(program, stages=stages)
    try:
        plan = compile(program, cores, points, options=CompileOptions(alternatives=False))
    except PlanError:
        return {}
    if plan.max_staleness == 0:  # its phases alternate; nothing is handed over at full speed
        return {}
    with tempfile.TemporaryDirectory(prefix="ebrl-rehearsal-") as folder:
        return _execute(plan, Path(folder))


def corrected(
    program: Program, points: Sequence[Point], seen: Mapping[str, StageWindow]
) -> tuple[Point, ...]:
    """The points with what handing over costs."""
    kinds = {
        key: (stage.name, stage.kind)
        for stage in program.stages
        for key in (stage.name, stage.profile_key)
        if key
    }
    moved: dict[str, Callable[[Point], float]] = {}
    for key, (name, kind) in kinds.items():
        mine = [p for p in points if p.stage == key and p.cores == 1.0 and p.sms == 0]
        window = seen.get(name)
        if mine and window is not None and window.firings >= FEWEST.get(kind, 30):
            move = _move(kind, mine, window)
            if move is not None:
                moved[key] = move
    return tuple(
        msgspec.structs.replace(
            point,
            median_s=moved[point.stage](point),
            p95_s=max(point.p95_s, moved[point.stage](point)),
            note=f"{point.median_s:.3g} s by itself; the rest is handing over, as rehearsed",
        )
        if point.stage in moved and point.cores == 1.0 and point.sms == 0
        else point
        for point in points
    )


def _move(kind: str, mine: Sequence[Point], window: StageWindow) -> Callable[[Point], float] | None:
    """How a point's seconds change."""
    ordered = sorted(mine, key=lambda point: point.batch)
    sizes = [point.batch for point in ordered]
    firing_s = window.work_s * window.batch
    known_s = float(np.interp(window.batch, sizes, [point.median_s for point in ordered]))
    if kind != "generate":
        known_s = ordered[-1].median_s / sizes[-1] * window.batch
    ratio = firing_s / known_s
    if not LIKELY[0] < ratio < LIKELY[1]:
        return None
    if kind == "generate":
        extra = max(0.0, firing_s - known_s)
        return lambda point: point.median_s + extra
    return lambda point: point.median_s * ratio


def _execute(plan: Plan, folder: Path) -> Mapping[str, StageWindow]:
    path = folder / "plan.json"
    path.write_bytes(encode(plan))
    run = folder / "run"
    command = [
        *(sys.executable, "-m", "ebrl", "execute", str(path), "--seconds", str(REHEARSED_S)),
        *("--logdir", str(run), "--no-replan", "--allow-changed-graph", "--json"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, timeout=WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        return {}
    lines = run / "stages.jsonl"
    if done.returncode != 0 or not lines.is_file():
        return {}
    windows = [msgspec.json.decode(line, type=Window) for line in lines.read_bytes().splitlines()]
    return merged(windows[SKIPPED:])
