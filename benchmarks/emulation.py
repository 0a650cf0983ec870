"""The simulation beside an emulation of the same plan: the real runtime with stages that wait.

    python -m benchmarks.emulation [--cluster a100x8] [--rounds 5] [--speed 5] [--updates 16]

Every example graph of a real workload is planned (the number of environments chosen by
simulation), simulated, and emulated `--rounds` times; printed is the median of the emulations and
how far it lies from the simulation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.ours import ROOT, ebrl
from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.plan import Plan, read

WORKLOADS = ("openvla_oft_maniskill", "pi05_libero", "pi0_metaworld", "gr00t_robocasa")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cluster", default="a100x8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--speed", type=float, default=5.0)
    parser.add_argument("--updates", type=int, default=16)
    parser.add_argument("--graphs", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("-o", "--output", type=Path, default=Path("emulation.json"))
    given = parser.parse_args()
    print(
        f"{'graph':24} {'envs':>5} {'predicted':>10} {'simulated':>10} {'emulated':>9} {'off':>7}"
    )
    rows = []
    for name in given.graphs:
        row = compare(name, given.cluster, given.rounds, given.speed, given.updates)
        rows.append(row)
        print(
            f"{name:24} {row['environments']:5} {row['predicted']:10.1f} {row['simulated']:10.1f} "
            f"{row['emulated']:9.1f} {row['off']:+7.1%}",
            flush=True,
        )
    told = {"machine": describe(), "cluster": given.cluster, "speed": given.speed, "rows": rows}
    given.output.write_text(json.dumps(told, indent=1) + "\n")


def compare(name: str, cluster: str, rounds: int, speed: float, updates: int) -> dict[str, Any]:
    """One graph: planned, simulated, emulated."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        ebrl("plan", str(ROOT / f"graphs/{name}.py"), "--cluster", cluster, "--foresee",
             "-o", str(path))  # fmt: skip
        plan = read(path)
        assert plan.program.training is not None
        seconds = updates * plan.program.training.batch / rate(plan)
        foreseen = simulate(plan, Conditions(seconds=seconds))[0].throughput_env_steps_per_s
        measured = [
            ebrl(
                "execute", str(path), "--emulate", "--payload-scale", "0.001",
                "--speed", str(speed), "--steps", str(updates * plan.program.training.batch),
                "--seed", str(number), "--logdir", str(Path(folder) / f"run{number}"),
                "--no-replan",
            )["steady_env_steps_per_s"]
            for number in range(rounds)
        ]  # fmt: skip
    emulated = statistics.median(measured)
    return {
        "graph": name,
        "environments": plan.environments.count,
        "workers": sum(len(stage.replicas) for stage in plan.stages),
        "predicted": rate(plan),
        "simulated": foreseen,
        "emulated": emulated,
        "emulations": measured,
        "off": emulated / foreseen - 1,
    }


def rate(plan: Plan) -> float:
    return plan.prediction.throughput_env_steps_per_s


if __name__ == "__main__":
    main()
