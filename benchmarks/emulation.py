"""The simulation beside an emulation of the same plan: the real runtime with stages that wait.

    python -m benchmarks.emulation [--cluster a100x8] [--rounds 5] [--speed 5] [--updates 16]
                                   [--stragglers 0.01]

Every example graph of a real workload is planned (the number of environments chosen by
simulation), simulated, and emulated `--rounds` times; printed is the median of the emulations and
how far it lies from the simulation. Both rates are over the same updates: from the end of the
warm-up's last one to the end of the last. `--stragglers`: the chance that a call takes five times
as long, in both. `--more FILE` adds the rounds to those of an earlier call, so that long
measurements can be made in parts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.ours import ROOT, ebrl
from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.plan import Plan, read

WORKLOADS = ("openvla_oft_maniskill", "pi05_libero", "pi0_metaworld", "gr00t_robocasa")
WARM_UP = 2  # updates until the pipeline is full
FEWEST = 6  # updates: four to measure over
STRAGGLES = 5.0  # times as long, as in Conditions


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cluster", default="a100x8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--speed", type=float, default=5.0)
    parser.add_argument("--updates", type=int, default=16)
    parser.add_argument("--stragglers", type=float, default=0.0, metavar="CHANCE")
    parser.add_argument("--graphs", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--more", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, default=Path("emulation.json"))
    given = parser.parse_args()
    if given.updates < FEWEST:
        parser.error(
            f"--updates {given.updates} leaves too little after a warm-up of {WARM_UP} updates: "
            f"give --updates {FEWEST} or more"
        )
    before = json.loads(given.more.read_text())["rows"] if given.more else []
    earlier = {row["graph"]: row["emulations"] for row in before}
    print(
        f"{'graph':24} {'envs':>5} {'predicted':>10} {'simulated':>10} {'emulated':>9} {'off':>7} "
        f"{'each':>15}"
    )
    rows = []
    for name in given.graphs:
        row = compare(name, given, earlier.get(name, []))
        rows.append(row)
        least, most = (pick(row["emulations"]) / row["simulated"] - 1 for pick in (min, max))
        print(
            f"{name:24} {row['environments']:5} {row['predicted']:10.1f} {row['simulated']:10.1f} "
            f"{row['emulated']:9.1f} {row['off']:+7.1%} {least:+7.1%}…{most:+.1%}",
            flush=True,
        )
    told = {
        "machine": describe(),
        "cluster": given.cluster,
        "speed": given.speed,
        "updates": given.updates,
        "stragglers": given.stragglers,
        "rows": [*(row for row in before if row["graph"] not in given.graphs), *rows],
    }
    given.output.write_text(json.dumps(told, indent=1) + "\n")


def compare(name: str, given: argparse.Namespace, earlier: list[float]) -> dict[str, Any]:
    """One graph: planned, simulated, emulated."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        ebrl("plan", str(ROOT / f"graphs/{name}.py"), "--cluster", given.cluster, "--foresee",
             "-o", str(path))  # fmt: skip
        plan = read(path)
        simulated = foreseen(plan, given.updates, given.stragglers)
        straggle = [
            word
            for stage in plan.stages
            if given.stragglers
            for word in (
                "--inject", f"straggle:{stage.name}*{STRAGGLES:g}%{100 * given.stragglers:g}",
            )
        ]  # fmt: skip
        assert plan.program.training is not None
        measured = list(earlier)
        for number in range(len(earlier), len(earlier) + given.rounds):
            run = Path(folder) / f"run{number}"
            ebrl(
                "execute", str(path), "--emulate", "--payload-scale", "0.001",
                "--speed", str(given.speed),
                "--steps", str(given.updates * plan.program.training.batch),
                "--seed", str(number), "--logdir", str(run), "--no-replan", *straggle,
            )  # fmt: skip
            measured.append(emulated(run, given.speed))
            print(f"{name} {number}: {measured[-1]:.1f}", file=sys.stderr, flush=True)
    middle = statistics.median(measured)
    return {
        "graph": name,
        "environments": plan.environments.count,
        "workers": sum(len(stage.replicas) for stage in plan.stages),
        "predicted": plan.prediction.throughput_env_steps_per_s,
        "simulated": simulated,
        "emulated": middle,
        "emulations": measured,
        "off": middle / simulated - 1,
    }


def foreseen(plan: Plan, updates: int, stragglers: float) -> float:
    """Environment steps per second of the simulation, after the warm-up; the median of five seeds
    where something varies."""
    training = plan.program.training
    assert training is not None
    seconds = 2 * updates * training.batch / plan.prediction.throughput_env_steps_per_s
    found = []
    for seed in range(5 if stragglers else 1):
        conditions = Conditions(
            seconds=seconds, seed=seed, stragglers=stragglers, straggler_factor=STRAGGLES
        )
        _, trace = simulate(plan, conditions, trace=True)
        assert trace is not None
        ends = [
            (event[4], int(event[6]["trained"]))
            for event in trace.events
            if event[3] == "version" and event[6] is not None
        ]
        (begin_s, before), (end_s, after) = ends[WARM_UP - 1], ends[:updates][-1]
        found.append((after - before) / (end_s - begin_s))
    return statistics.median(found)


def emulated(run: Path, speed: float) -> float:
    """The same of a run, in the plan's seconds."""
    lines = [json.loads(line) for line in (run / "progress.jsonl").read_text().splitlines()]
    first, last = lines[WARM_UP - 1], lines[-1]
    seconds: float = (last["seconds"] - first["seconds"]) * speed
    return float(last["env_steps"] - first["env_steps"]) / seconds


if __name__ == "__main__":
    main()
