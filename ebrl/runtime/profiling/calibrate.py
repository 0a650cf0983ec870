"""Quick calibration: the few places that a plan for this machine's cores cannot do without, all
stages at once, in seconds. The quick case of `sweep.py`, on the same processes and stopwatches.

Invariant: all stages are measured together, so every core is as busy as it will be in the run, and
the CPU seconds that come out are those that the plan can count on. Results are cached under what
they depend on: the stages, the program's shapes, the machine, the versions of what does the work.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from ebrl.planner.plan import Program
from ebrl.planner.profile import Point
from ebrl.runtime.profiling import grid
from ebrl.runtime.profiling.asking import Ask, Request, Slice
from ebrl.runtime.profiling.bench import Bench, Benches
from ebrl.runtime.profiling.rehearse import corrected, rehearse
from ebrl.runtime.profiling.tally import Place, Tally

BUDGET_S = 3.0
ROUNDS = 3  # times that each place is looked at, at least
PATIENCE = 4.0  # times the budget that one update may take before it is cut short
PACKAGES = ("ebrl", "torch", "numpy", "gymnasium", "mani-skill", "sapien")
FORMAT = 3  # of the cache


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Measured points, and what only a built policy tells."""

    points: tuple[Point, ...]
    weights_bytes: int
    cached: bool = False


def calibrate(
    program: Program,
    graph: Path,
    *,
    cache: Path | None,
    say: Callable[[str], None],
    budget_s: float = BUDGET_S,
    rehearsed: bool = True,
) -> Calibration:
    """Points of the simulate, generate and train stage on one core of this machine.

    `batch` is in environment steps for simulate and train and in environments answered at once for
    generate; `median_s` is CPU seconds of one batch. `cache`: a folder, or None. PlanError where a
    stage cannot be measured, with the end of what it printed. `rehearsed`: corrected by a short
    run of the whole.
    """
    path = (
        None if cache is None else cache / f"calibration-{key(program, budget_s, rehearsed)}.json"
    )
    if path is not None and path.is_file():
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Calibration)
        except msgspec.DecodeError:
            path.unlink()
        else:
            return msgspec.structs.replace(found, cached=True)
    cores = len(os.sched_getaffinity(0))
    here = grid.Site(cores=cores, origin=f"calibration on {grid.processor()}, {cores} cores busy")
    asked = grid.requests(program, graph, here, patience_s=PATIENCE * budget_s)
    say(
        f"measuring {', '.join(dict.fromkeys(each.stage for each in asked))} on this machine "
        f"({budget_s:.0f} s and their start-up)"
    )
    with Benches(asked) as benches:
        tallies = _together(benches, here, budget_s)
        ready = [(bench.request, bench.ready) for bench in benches.all]
    points = grid.points(tallies, here, grid.built(ready), origin=here.origin)
    weights_bytes = max(each.weights_bytes for _, each in ready)
    if rehearsed:
        say("rehearsing them together")
        points = corrected(program, points, rehearse(program, points, weights_bytes))
    result = Calibration(points=points, weights_bytes=weights_bytes)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(msgspec.json.encode(result))
        os.replace(draft, path)
    return result


def _together(benches: Benches, here: grid.Site, budget_s: float) -> dict[Place, Tally]:
    """Every stage goes round its places on one core until the time is over."""
    tallies: dict[Place, Tally] = {}
    turns: dict[Bench, int] = dict.fromkeys(benches.all, 0)
    end = time.monotonic() + budget_s

    def places(request: Request) -> list[Place]:
        return [place for place in grid.places(request, here) if place.cores == 1]

    asked = {bench.request.stage: bench.request for bench in benches.all}
    wanted = sum(len(places(request)) for request in asked.values())

    def question(bench: Bench) -> Ask | None:
        mine = places(bench.request)
        now = time.monotonic()
        everybody = min(tally.slices for tally in tallies.values()) if tallies else 0
        complete = len(tallies) == wanted
        if now >= end and complete and everybody >= ROUNDS:
            return None
        if now >= end + PATIENCE * budget_s and turns[bench] >= len(mine):
            return None  # what takes so long has been measured often enough
        place = mine[turns[bench] % len(mine)]
        turns[bench] += 1
        return Ask(batch=place.batch, seconds=budget_s / (ROUNDS + 1) / len(mine))

    def heard(bench: Bench, ask: Ask, told: Slice) -> None:
        place = Place(bench.request.stage, 0, 1, ask.batch)
        tallies.setdefault(place, Tally()).add(told.seconds, told.bytes, told.device_bytes)

    benches.run(question, heard)
    return tallies


def key(program: Program, budget_s: float, rehearsed: bool = False) -> str:
    """What a measurement of this program depends on, as a digest."""
    versions = []
    for package in PACKAGES:
        try:
            versions.append(importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            versions.append("")
    body = [
        FORMAT,
        rehearsed,
        [stage.fingerprint for stage in program.stages],
        msgspec.to_builtins(program.environment),
        msgspec.to_builtins(program.training),
        len(os.sched_getaffinity(0)),
        grid.processor(),
        budget_s,
        versions,
    ]
    return hashlib.sha256(msgspec.json.encode(body)).hexdigest()[:20]
