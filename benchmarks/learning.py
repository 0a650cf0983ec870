"""Does staleness cost learning? Return against steps at η = 0, 1, 2, 4, several seeds each.

    python -m benchmarks.learning [--tasks cartpole …] [--seeds 5] [-o FILE]

One line of JSON is appended to FILE for each run that has ended, and those that are there already
are skipped, so it can be stopped and started again; seeds are the outer loop, so that every η has
had its turn when it is stopped. Only steps count, so other work on the machine does not matter to
the curves; how stale the data really was does depend on it and stands in each line. "pushcube-held"
is the worst case: the learner is held back (graphs/held.py) until the data is as stale as the bound
allows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.graphs.held import HELD
from benchmarks.machine import describe
from benchmarks.ours import ROOT, ebrl

RESULTS = Path("benchmark-learning.jsonl")
ETAS = (0, 1, 2, 4)
POINTS = 80  # of a curve that are kept


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is learnt, for how long, and what is looked at."""

    graph: str
    steps: int
    score: str  # a key of progress.jsonl
    held: bool = False


TASKS = {
    "cartpole": Task(graph="graphs/cartpole_ppo.py", steps=150_000, score="ep_rew_mean"),
    "pendulum": Task(graph="graphs/pendulum_ppo.py", steps=100_000, score="ep_rew_mean"),
    "pushcube": Task(graph="graphs/pushcube_ppo.py", steps=100_000, score="success_once"),
    "pushcube-held": Task(
        graph="benchmarks/graphs/pushcube_held.py",
        steps=60_000,
        score="success_once",
        held=True,
    ),
}


def learn(name: str, eta: int, seed: int) -> dict[str, Any]:
    """Plan and execute one run; its curve and what it said of itself."""
    task = TASKS[name]
    with tempfile.TemporaryDirectory(prefix="ebrl-learning-") as folder:
        plan, run = Path(folder) / "plan.json", Path(folder) / "run"
        graph = str(ROOT / task.graph)
        ebrl("plan", graph, "--cluster", "local", "--max-staleness", str(eta), "-o", str(plan))
        told = ebrl(
            "execute",
            str(plan),
            *("--steps", str(task.steps), "--seed", str(seed)),
            *("--logdir", str(run), "--no-replan"),
            **({HELD: str(eta)} if task.held else {}),
        )
        curve = list(_curve(run / "progress.jsonl", task.score))
    return {
        "task": name,
        "eta": eta,
        "seed": seed,
        "steps": task.steps,
        "curve": curve,
        "staleness": told["staleness"],
        "discarded": sum(told["ledger"]["discarded"].values()),
        "env_steps_per_s": told["env_steps_per_s"],
        "ep_rew_mean": told["ep_rew_mean"],
        "success_once": told["success_once"],
        "machine": describe(),
    }


def _curve(path: Path, score: str) -> Iterator[tuple[int, float, float]]:
    """(steps, seconds since the first step, score), evenly thinned out."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [line for line in lines if line[score] is not None]
    every = max(1, len(lines) // POINTS)
    for index, line in enumerate(lines):
        if index % every == 0 or index == len(lines) - 1:
            yield line["env_steps"], round(line["seconds"], 3), round(line[score], 4)


def finished(path: Path) -> list[dict[str, Any]]:
    """The runs that have ended; a line that was cut short is not one."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def run(tasks: Sequence[str], etas: Sequence[int], seeds: int, output: Path) -> None:
    """Everything that is not in `output` yet."""
    known = {(r["task"], r["eta"], r["seed"], r["steps"]) for r in finished(output)}
    for seed in range(1, seeds + 1):
        for name in tasks:
            for eta in etas:
                if (name, eta, seed, TASKS[name].steps) in known:
                    continue
                told = learn(name, eta, seed)
                with output.open("a") as file:
                    file.write(json.dumps(told) + "\n")
                print(
                    f"{name} η {eta} seed {seed}: {told[TASKS[name].score]:.2f}, staleness "
                    f"{told['staleness']['mean']:.2f}, {told['env_steps_per_s']:,.0f} steps/s",
                    file=sys.stderr,
                    flush=True,
                )


def main() -> None:
    """Train what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=sorted(TASKS), default=sorted(TASKS))
    parser.add_argument("--etas", nargs="+", type=int, default=ETAS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    run(options.tasks, options.etas, options.seeds, options.output)


if __name__ == "__main__":
    main()
