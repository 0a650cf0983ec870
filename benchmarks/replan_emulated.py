"""Replanning on eight GPUs, emulated: six changes, each met by three runs.

    python -m benchmarks.replan_emulated [--cases simulate gpu …] [-o results.json]

A case takes four minutes (gradual: six). What is measured is added to the JSON file, so that the
cases may be run one by one; the table and the picture are of all that are in it.

Every run is `ebrl execute --emulate` of the pipeline in `benchmarks/eight.py`, at speed `SPEED`:
so many of its seconds pass in one of ours, and planning takes the time that it really takes. After
`CHANGE_S` something changes. *unadapted* runs on with the plan it has (`--no-replan`), *adapted*
may replan, *oracle* was planned for the changed times (exactly known, to a gap of 0.05 %) and meets
them from its first step. Rates are trained environment steps a second of the pipeline's time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks import eight
from benchmarks.machine import describe
from ebrl.planner.plan import Plan, write
from ebrl.planner.profile import Point
from ebrl.runtime.watch.around import fewer_cores
from ebrl.runtime.watch.planning import Question, answer

SPEED = 1.0
CHANGE_S, LAST_S = 20.0, 40.0
TARGET, WITHIN_S = 0.95, 10.0


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """`inject` with `{at}` where its time goes; `factors` of stages, `slow` devices and `gone`
    cores are the same as the oracle knows them. `ramp_s`: until it is all there."""

    title: str
    inject: str
    factors: dict[str, float] = {}
    slow: dict[str, float] = {}
    gone: float = 0.0
    ramp_s: float = 0.0


CASES = {
    "simulate": Case(title="simulate × 2", inject="simulate*2@{at}s", factors={"simulate": 2.0}),
    "generate": Case(
        title="generate × 1.8", inject="generate*1.8@{at}s", factors={"generate": 1.8}
    ),
    "train": Case(title="train × 1.5", inject="train*1.5@{at}s", factors={"train": 1.5}),
    "gradual": Case(
        title="generate + 60 % over 60 s",
        inject="generate*1.6@{at}s+60s",
        factors={"generate": 1.6},
        ramp_s=60.0,
    ),
    "gpu": Case(title="one GPU at half speed", inject="gpu3*2@{at}s", slow={"a100x8-0/3": 2.0}),
    "cores": Case(title="25 % of the cores gone", inject="cores-25%@{at}s", gone=32.0),
}


def oracle(first: Plan, case: Case) -> Plan:
    """The best plan for what `case` comes to, to be played with the first plan's times and cluster,
    which the injection changes."""
    points: tuple[Point, ...] = eight.profile(case.factors).points
    told = answer(
        Question(
            plan=first,
            points=points,
            environments=first.environments.count,
            cluster=fewer_cores(first.cluster, case.gone),
            slow=case.slow,
            resolution=5e-4,
            time_limit_s=60.0,
        )
    )
    best = max(told.candidates, key=lambda each: each.throughput).plan
    assert best is not None
    return msgspec.structs.replace(
        best,
        profile=first.profile,
        profile_sha256=first.profile_sha256,
        cluster=first.cluster,
        cluster_sha256=first.cluster_sha256,
    )


def emulated(
    plan: Plan, run: Path, inject: str, seconds: float, *options: str
) -> list[dict[str, Any]]:
    """Play a plan for so many of its seconds; its windows. It is stopped by SIGINT, as a run of
    days would be, so that what a switch costs is weighed against a long future."""
    path = run.with_suffix(".json")
    write(plan, path)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ebrl", "execute", str(path), "--emulate", "--json"),
            *("--speed", str(SPEED), "--payload-scale", "0.0005", "--steps", str(10**9)),
            *("--logdir", str(run), "--inject", inject, *options),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        while process.poll() is None:
            seen = lines(run / "stages.jsonl")
            if seen and seen[-1]["at_s"] >= seconds:
                process.send_signal(signal.SIGINT)
                break
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                continue
        _, told = process.communicate(timeout=30)
    finally:
        process.kill()
    if process.returncode not in (0, 130):
        raise RuntimeError(f"ebrl execute failed:\n{told}")
    return lines(run / "stages.jsonl")


def lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines of a file that may still grow."""
    if not path.is_file():
        return []
    whole = path.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def rate(seen: list[dict[str, Any]], begin: float, end: float) -> float:
    """Trained environment steps a second between these moments of a run."""
    mine = [w for w in seen if begin < w["at_s"] <= end]
    seconds = sum(w["seconds"] for w in mine)
    return sum(w["trained"] for w in mine) / seconds if seconds else 0.0


def one(first: Plan, case: Case, folder: Path) -> dict[str, Any]:
    """Three runs, and what they come to."""
    folder.mkdir(parents=True)
    there = CHANGE_S + case.ramp_s  # all of it
    end = there + 50.0 + LAST_S
    at = case.inject.format(at=f"{CHANGE_S:g}")
    adapted = emulated(first, folder / "adapted", at, end)
    still = emulated(first, folder / "unadapted", at, there + LAST_S, "--no-replan")
    if case.ramp_s:  # what it comes to, from the start
        know = case.inject.format(at="0").rpartition("+")[0]
    else:
        know = case.inject.format(at="0")
    knows = emulated(oracle(first, case), folder / "oracle", know, 10.0 + LAST_S, "--no-replan")
    events = lines(folder / "adapted" / "events.jsonl")
    switched = [event["at_s"] for event in events if event["event"] == "switched"]
    decisions = lines(folder / "adapted" / "decisions.jsonl")
    applied = [d["at_s"] for d in decisions if d["applied"]]
    found = {
        "before": rate(adapted, 5.0, CHANGE_S),
        "unadapted": rate(still, there + 5.0, there + LAST_S),
        "adapted": rate(adapted, end - LAST_S, end),
        "oracle": rate(knows, 10.0, 10.0 + LAST_S),
    }
    return {
        "title": case.title,
        "inject": at,
        **found,
        "of_oracle": found["adapted"] / found["oracle"],
        "decided_s": applied[0] - CHANGE_S if applied else None,
        "switched_s": switched[0] - CHANGE_S if switched else None,
        "switches": switched,
        "decisions": decisions,
        "windows": {"adapted": adapted, "unadapted": still, "oracle": knows},
    }


HEAD = (
    f"{'change':<26} {'before':>8} {'unadapted':>9} {'adapted':>8} {'oracle':>8} {'of it':>6} "
    f"{'decided':>8} {'switched':>8}"
)


def row(case: dict[str, Any]) -> str:
    def after(key: str) -> str:
        return "-" if case[key] is None else f"{case[key]:.1f} s"

    return (
        f"{case['title']:<26} {case['before']:8,.0f} {case['unadapted']:9,.0f} "
        f"{case['adapted']:8,.0f} {case['oracle']:8,.0f} {case['of_oracle']:6.0%} "
        f"{after('decided_s'):>8} {after('switched_s'):>8}"
    )


def draw(cases: list[dict[str, Any]], path: Path) -> None:
    """Throughput over time, one small picture a case; SVG beside a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = 3
    figure = Figure(figsize=(11, 2.9 * -(-len(cases) // columns)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(-(-len(cases) // columns), columns, squeeze=False, sharey=True)
    for axes, case in zip(grid.flat, cases, strict=False):
        for label, colour in (("unadapted", "#c0392b"), ("adapted", "#1f5fa8")):
            seen = case["windows"][label]
            width = max(1, round(6 / max(1e-9, seen[-1]["at_s"] / len(seen))))
            smooth = np.ones(width) / width
            raw = [w["trained"] / w["seconds"] for w in seen]
            rates = np.convolve(raw, smooth, "valid")
            at = [w["at_s"] for w in seen][width - 1 :]
            axes.plot(at, rates, color=colour, linewidth=1.4, label=label)
        axes.axhline(case["oracle"], color="#2a7f3f", linewidth=1.2, linestyle="--", label="oracle")
        axes.axvline(CHANGE_S, color="#555555", linestyle=":", linewidth=1, label="change")
        for n, when in enumerate(case["switches"]):
            axes.axvline(when, color="#1f5fa8", linewidth=0.8, alpha=0.5,
                         label="switched" if n == 0 else None)  # fmt: skip
        axes.set_title(f"{case['title']}: {case['of_oracle']:.0%} of the oracle", fontsize=9)
        axes.set_ylim(0, None)
        axes.grid(alpha=0.25)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in list(grid.flat)[len(cases) :]:
        axes.set_axis_off()
    for axes in grid[-1]:
        axes.set_xlabel("seconds of the pipeline", fontsize=8)
    for axes in grid[:, 0]:
        axes.set_ylabel("trained steps/s (6 s mean)", fontsize=8)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=110)


def main() -> None:
    """Run, add to the JSON, print the table, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", nargs="*", choices=tuple(CASES), default=tuple(CASES))
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmark-replan-emulated.json"))
    parser.add_argument("--keep", type=Path, help="where the runs' directories stay")
    args = parser.parse_args()
    result: dict[str, Any] = {"cases": {}}
    if args.output.is_file():
        result = json.loads(args.output.read_text())
    first = eight.plan()
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for name in args.cases:
            case = one(first, CASES[name], (args.keep or Path(folder)) / name)
            case |= {"machine": describe(), "at": time.time()}
            result["cases"][name] = case
            print(row(case), flush=True)
            args.output.write_text(json.dumps(result) + "\n")
    seen = [result["cases"][name] for name in CASES if name in result["cases"]]
    for case in seen:
        if case["title"] not in {CASES[name].title for name in args.cases}:
            print(row(case))
    draw(seen, args.output)


if __name__ == "__main__":
    main()
