"""Runs whose stage times change: what replanning brings back, and whether it ever does harm.

    python -m benchmarks.replan [--cases heavier neighbour noise square] [-o benchmark-replan.json]

*heavier* and *neighbour* are real runs on this machine. A ManiSkill pipeline's physics becomes
dearer after `CHANGE_S`; a foreign process takes one core for good. Each is run with replanning, and
without; beside them stands a fresh plan, made and run under the new conditions from the start.
Counted are trained environment steps a second over the last `LAST_S`.

*noise* and *square* are an hour each of stage times that are drawn, through the run's own detector,
planner and patience, by a clock of their own: stationary log-normal noise of 20 %, and a stage that
takes 1.8 times as long half of the time, swinging faster than the cooldown.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe

HERE = Path(__file__).resolve().parent
CHANGE_S, RUN_S, LAST_S = 20.0, 60.0, 15.0
FLOOR = 0.9  # of a fresh plan's throughput
BURN = "import os\nos.sched_setaffinity(0, {%d})\nwhile True: pass"


def ebrl(*arguments: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """One command; its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "ebrl", *arguments, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode != 0:
        raise RuntimeError(f"ebrl {arguments[0]} failed:\n{done.stdout}\n{done.stderr}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


class Heavier:
    """The scene becomes heavier: a file appears."""

    graph = HERE / "graphs" / "heavier.py"

    def __init__(self, folder: Path) -> None:
        self._flag = folder / "heavier"
        self.environment = {"EBRL_HEAVIER": str(self._flag)}

    def begin(self) -> None:
        self._flag.touch()

    def end(self) -> None:
        self._flag.unlink(missing_ok=True)


class Neighbour:
    """A foreign process takes the last core for good."""

    graph = HERE / "graphs" / "pushcube.py"

    def __init__(self, folder: Path) -> None:
        del folder
        self.environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        core = max(os.sched_getaffinity(0))
        self._process = subprocess.Popen([sys.executable, "-c", BURN % core])

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def windows(run: Path) -> list[dict[str, Any]]:
    path = run / "stages.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def rate(seen: list[dict[str, Any]], begin: float, end: float) -> float:
    """Trained environment steps a second between these moments of a run."""
    mine = [w for w in seen if begin < w["at_s"] <= end]
    seconds = sum(w["seconds"] for w in mine)
    return sum(w["trained"] for w in mine) / seconds if seconds else 0.0


def executed(
    plan: Path,
    run: Path,
    change: Heavier | Neighbour | None,
    environment: dict[str, str],
    *options: str,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run a plan for `RUN_S`; `change` begins after `CHANGE_S`."""
    stop = threading.Event()

    def later() -> None:
        while not stop.wait(0.1):
            seen = windows(run)
            if seen and seen[-1]["at_s"] >= CHANGE_S:
                assert change is not None
                change.begin()
                return

    thread = threading.Thread(target=later)
    if change is not None:
        thread.start()
    try:
        told = ebrl(
            *("execute", str(plan), "--seconds", str(RUN_S), "--logdir", str(run), *options),
            environment=environment,
        )
    finally:
        stop.set()
        if change is not None:
            thread.join()
            change.end()
    return windows(run), told


def real(name: str, folder: Path) -> dict[str, Any]:
    """One change, three runs: adapted, not adapted, and planned for it from the start."""
    change = Heavier(folder) if name == "heavier" else Neighbour(folder)
    plan = folder / "plan.json"
    ebrl("plan", str(change.graph), "-o", str(plan), environment=change.environment)
    found: dict[str, Any] = {"runs": {}, "windows": {}}
    for label, options in (("replanned", ()), ("not replanned", ("--no-replan",))):
        run = folder / label.replace(" ", "-")
        seen, told = executed(plan, run, change, change.environment, *options)
        found["windows"][label] = seen
        found["runs"][label] = {
            "before": rate(seen, 5.0, CHANGE_S),
            "after": rate(seen, RUN_S - LAST_S, RUN_S),
            "replans": told["replans"],
            "ledger": told["ledger"],
            "decisions": _decisions(run),
        }
    change.begin()
    try:
        fresh, run = folder / "fresh.json", folder / "fresh"
        profile = folder / "fresh-profile.json"
        # A profiling is never answered from the cache, so the change is in it.
        ebrl(
            *("profile", str(change.graph), "-o", str(profile), "--budget", "25s"),
            environment=change.environment,
        )
        ebrl(
            *("plan", str(change.graph), "--profile", str(profile), "-o", str(fresh)),
            environment=change.environment,
        )
        seen, _ = executed(fresh, run, None, change.environment, "--no-replan")
    finally:
        change.end()
    found["windows"]["fresh plan"] = seen
    found["runs"]["fresh plan"] = {"after": rate(seen, RUN_S - LAST_S, RUN_S)}
    found["recovered"] = found["runs"]["replanned"]["after"] / found["runs"]["fresh plan"]["after"]
    return found


def _decisions(run: Path) -> list[dict[str, Any]]:
    path = run / "decisions.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def drawn(name: str, seconds: int, *, period: int = 20) -> dict[str, Any]:
    """An hour by its own clock: what would have been decided, and what that would have cost."""
    from ebrl.planner.plan import read
    from ebrl.runtime.watch.decide import Patience, Policy, decide
    from ebrl.runtime.watch.drift import Detector
    from ebrl.runtime.watch.learn import updated
    from ebrl.runtime.watch.planning import Question, answer
    from ebrl.runtime.watch.switch import between
    from ebrl.runtime.watch.window import StageWindow, Window

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        ebrl("plan", str(HERE / "graphs" / "cartpole.py"), "-o", str(path))
        plan = read(path)
    generator = np.random.default_rng(0)
    sigma = 0.2 if name == "noise" else 0.05
    policy, points = Policy(), plan.profile
    detector, patience = Detector(plan, points, window_s=1.0), Patience(policy.cooldown_s)
    per_item = {s.name: s.seconds / (s.replicas[0].batch or 1) for s in plan.stages}
    per_item |= {s.name: s.seconds / s.batch for s in plan.stages if s.kind == "train"}
    lost, switches, decisions = 0.0, 0, []
    for second in range(seconds):
        swing = 1.8 if name == "square" and second // (period // 2) % 2 else 1.0
        stages = {}
        for stage in plan.stages:
            factor = swing if stage.kind == "generate" else 1.0
            batch = float(stage.batch)
            work = per_item[stage.name] * factor * math.exp(sigma * generator.standard_normal())
            stages[stage.name] = StageWindow(
                firings=50,
                items=int(50 * batch),
                work_s=work,
                batch=batch,
                p50_s=work * batch,
                p95_s=work * batch,
                busy=0.5,
                queue=1.0,
            )
        detector.add(
            Window(at_s=second, seconds=1.0, stages=stages, trained=0, ours=1.5, foreign=0.0)
        )
        finding = detector.finding()
        if not patience.ready(second) or not finding.tested or finding.kind == "none":
            continue
        points = updated(plan, points, finding.factors, stages, slowdown=finding.common)
        told = answer(Question(plan=plan, points=points, environments=plan.environments.count))
        replicas = plan.of_kind("simulate")[0].replicas
        seats = {f"simulate {r.index}": (r.environments or (0, 0)) for r in replicas}
        held = {name: last - first for name, (first, last) in seats.items()}
        ways = {c.name: between(plan, c.plan, held) for c in told.candidates if c.plan is not None}
        costs = {n: (8.0 if w.respawn else 0.1, w.words()) for n, w in ways.items() if w.changes}
        decision = decide(
            finding, told.candidates, costs, policy, at_s=second, left_s=seconds - second
        )
        decisions.append(decision.line())
        if decision.chosen is not None:
            switches += 1
            lost += costs[decision.chosen][0]
            plan = next(c.plan for c in told.candidates if c.name == decision.chosen) or plan
        patience.decided(second, switched=decision.chosen is not None)
        detector.rebase(plan, points, finding.foreign)
    return {
        "seconds": seconds,
        "switches": switches,
        "decisions": decisions,
        "lost_s": lost,
        "kept": 1 - lost / seconds,
    }


def draw(name: str, case: dict[str, Any], path: Path) -> None:
    """Throughput over time of a case's runs, with the change and the decisions marked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    colours = {"replanned": "#1f5fa8", "not replanned": "#c0392b", "fresh plan": "#2a7f3f"}
    for label, seen in case["windows"].items():
        at = [w["at_s"] for w in seen]
        trained = np.convolve([w["trained"] / w["seconds"] for w in seen], np.ones(4) / 4, "same")
        axes.plot(at, trained, color=colours[label], label=label, linewidth=1.5)
    axes.axvline(CHANGE_S, color="#444444", linestyle=":", label="change")
    for decision in case["runs"]["replanned"]["decisions"]:
        axes.axvline(
            decision["at_s"],
            color="#1f5fa8",
            linestyle="--" if decision["applied"] else ":",
            alpha=0.6,
        )
    axes.set(
        xlabel="seconds",
        ylabel="trained steps/s",
        ylim=(0, None),
        title=f"{name}: {case['recovered']:.0%} of a fresh plan's throughput",
    )
    axes.legend(frameon=False, fontsize=8)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def table(name: str, case: dict[str, Any]) -> list[str]:
    lines = []
    if "runs" in case:
        for label, run in case["runs"].items():
            before = f"{run['before']:9,.1f}" if "before" in run else " " * 9
            lines.append(f"{name:<10} {label:<14} {before} {run['after']:9,.1f}")
        verdict = "reached" if case["recovered"] >= FLOOR else "MISSED"
        lines.append(
            f"{'':<10} of a fresh plan's {case['recovered']:.0%}, floor {FLOOR:.0%} {verdict}"
        )
        lines += [
            f"{'':<10} {d['at_s']:.0f} s: {d['drifted']}; {d['why']}"
            for d in case["runs"]["replanned"]["decisions"]
        ]
    else:
        lines.append(
            f"{name:<10} {case['switches']} switches, {len(case['decisions'])} decisions in "
            f"{case['seconds'] / 3600:.1f} h, {case['kept']:.1%} of the time kept"
        )
    return lines


def main() -> None:
    """Run, print the table, draw, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = ("heavier", "neighbour", "noise", "square")
    parser.add_argument("--cases", nargs="+", choices=names, default=names)
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmark-replan.json"))
    args = parser.parse_args()
    result: dict[str, Any] = {"machine": describe(), "at": time.time(), "cases": {}}
    print(f"{'case':<10} {'run':<14} {'before':>9} {'after':>9}  trained steps/s")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.cases:
            if name in ("heavier", "neighbour"):
                place = Path(folder) / name
                place.mkdir()
                case = real(name, place)
                draw(name, case, args.output.with_name(f"{args.output.stem}-{name}.png"))
            else:
                case = drawn(name, 3600)
            result["cases"][name] = case
            print("\n".join(table(name, case)), flush=True)
    args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
