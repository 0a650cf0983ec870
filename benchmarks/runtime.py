"""Throughput of a whole run, training included, beside the peers': in turn, in the same run.

    python -m benchmarks.runtime [--tasks cartpole pushcube] [--rounds 3] [--peers sb3 …]

Every round runs each contender once, in a process of its own, so that all of them see the machine
as it is then; the ratio is taken round by round and its median reported. Counted are distinct
trained environment steps from the first environment step to the end of the last update. Network,
epochs, minibatch and horizon are the same; each peer has the settings that were found its best
(benchmarks/peers/README.md). Peers' virtual environments are built on first use, under `--root`.

Beside our rate stands the limit: cores over the core time of an environment step, the stages
measured in the same round, on their own, each with as many cores busy as in the run and at the
batch that is cheapest for it. What is missing to it is waiting and handing over.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.ours import ebrl
from benchmarks.peers import run_peer
from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.runtime.profiling.calibrate import calibrate

HERE = Path(__file__).resolve().parent
OURS = "ebrl"
PEERS = {
    "cartpole": ("sb3", "sample_factory", "cleanrl_envpool", "torchrl", "rllib"),
    "pushcube": ("sb3",),
}
STEPS = {"cartpole": 300_000, "pushcube": 65_536}  # long enough that filling the pipeline is little
PEER_STEPS = {"cartpole": 60_000, "pushcube": 12_288}
FLOORS = {("cartpole", "sb3"): 3.0, ("cartpole", "sample_factory"): 1.5, ("pushcube", "sb3"): 1.5}


def run_ours(task: str, steps: int, seed: int) -> dict[str, Any]:
    """Plan the benchmark's graph for this machine and execute it; the summary of the run."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        ebrl("plan", str(HERE / "graphs" / f"{task}.py"), "--cluster", "local", "-o", str(plan))
        return ebrl(
            "execute",
            str(plan),
            *("--steps", str(steps), "--seed", str(seed)),
            *("--logdir", str(Path(folder) / "run")),
        )


def limit(task: str) -> float:
    """Environment steps a second if the cores did nothing but the stages' own work."""
    graph = HERE / "graphs" / f"{task}.py"
    program = check(load_graph(graph))
    found = calibrate(program, graph, cache=None, say=lambda _: None, rehearsed=False)
    least: dict[str, float] = {}
    for point in found.points:
        each = point.median_s / point.batch
        least[point.stage] = min(each, least.get(point.stage, each))
    return len(os.sched_getaffinity(0)) / sum(least.values())


def measure(task: str, rounds: int, root: Path, peers: tuple[str, ...]) -> dict[str, Any]:
    """Rates of every contender by round, and what our runs said of themselves."""
    rates: dict[str, list[float]] = {name: [] for name in (OURS, *peers)}
    runs: list[dict[str, Any]] = []
    limits: list[float] = []
    for round_ in range(rounds):
        for name in (OURS, *peers):
            if name == OURS:
                told = run_ours(task, STEPS[task], seed=round_ + 1)
                runs.append(told)
                limits.append(limit(task))
                rate = told["env_steps_per_s"]
            else:
                told = run_peer(
                    name, task, root=root, steps=PEER_STEPS[task], settings={"seed": round_ + 1}
                )
                rate = told["env_steps_per_s"]
            rates[name].append(rate)
            print(f"{task} round {round_ + 1}: {name} {rate:,.0f} steps/s", file=sys.stderr)
    return {"rates": rates, "runs": runs, "limits": limits}


def table(task: str, measured: dict[str, Any]) -> list[str]:
    """One line a contender: median rate, spread, and our ratio to it."""
    ours = measured["rates"][OURS]
    lines = [f"{task:<10} {'steps/s':>9} {'min':>8} {'max':>8} {'ebrl ÷ it':>10}  floor"]
    for name, rates in measured["rates"].items():
        ratio = statistics.median(a / b for a, b in zip(ours, rates, strict=True))
        floor = FLOORS.get((task, name))
        told = "" if floor is None else f"{floor}× {'reached' if ratio >= floor else 'MISSED'}"
        lines.append(
            f"{name:<10.10} {statistics.median(rates):>9,.0f} {min(rates):>8,.0f} "
            f"{max(rates):>8,.0f} {ratio:>9.2f}×  {told}"
        )
    for run, most in zip(measured["runs"], measured["limits"], strict=True):
        steady = run["steady_env_steps_per_s"]
        lines.append(
            f"  ebrl: {steady:,.0f} steady, {steady / most:.0%} of the limit of {most:,.0f}, "
            f"{run['predicted_env_steps_per_s']:,.0f} predicted; first step after "
            f"{run['start_to_first_step_s']:.1f} s, first update after "
            f"{run['start_to_first_update_s']:.1f} s; {run['memory_bytes'] / 1e9:.2f} GB"
        )
    return lines


def main() -> None:
    """Measure, print the tables, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tasks", nargs="+", choices=sorted(PEERS), default=sorted(PEERS))
    parser.add_argument("--peers", nargs="*", help="only these (default: all that know the task)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--root", type=Path, default=HERE.parent / ".peers")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmark-runtime.json"))
    args = parser.parse_args()
    result: dict[str, Any] = {"machine": describe(), "tasks": {}}
    for task in args.tasks:
        chosen = tuple(p for p in PEERS[task] if args.peers is None or p in args.peers)
        result["tasks"][task] = measure(task, args.rounds, args.root, chosen)
        print("\n".join(table(task, result["tasks"][task])), flush=True)
    args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
