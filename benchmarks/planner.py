"""How long planning takes, how good plans are, and whether every graph can be planned everywhere.

    python -m benchmarks.planner [--rounds 3] [--naive-limit 60] [--gaps] [--sweep] [-o FILE]

Times are of the command `ebrl plan`, process start included. The speed-up is over the best
placement of whole GPUs (collocated, disaggregated in the best ratio, hybrid) on the same options
and times, so it says what splitting SMs is worth, and nothing about other systems. `--gaps` plans
all four workloads on clusters of every size, as published and scaled to the cluster. `--sweep`
plans every example graph on every device of the catalogue, on 1, 4, 8 and 64 of them: each plan
verifies, or is refused with a named reason. Stages that declare no work are measured here first.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import planner_naive
from benchmarks.machine import describe
from ebrl.errors import PlanError
from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.frontend.program import Program
from ebrl.planner.cluster import parse
from ebrl.planner.compile import compile
from ebrl.planner.devices import catalogue
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.model.spaces import spaces
from ebrl.planner.plan import Plan
from ebrl.planner.profile import Point
from ebrl.planner.proof.verify import verify
from ebrl.planner.shipped import shipped

ROOT = Path(__file__).resolve().parents[1]
WORKLOADS = ("openvla_oft_maniskill", "pi05_libero", "pi0_metaworld", "gr00t_robocasa")
MIX = "16*(a100x8)+16*(h100x8)+32*(l40sx4)+16*(l20x8)"
TARGETS = (  # cluster, seconds allowed, environments and batch scaled to it
    ("a100x8", 1.5, 1),
    ("128*(a100x8)", 3.0, 64),
    ("2048*(a100x8)", 10.0, 64),
    (MIX, 10.0, 64),
)
GAPS = ("a100x8", "8*(a100x8)", "2*(l40sx4)+1*(cpu64)", "128*(a100x8)", "2048*(a100x8)", MIX)
SMALL = ("cartpole_ppo", "pushcube_ppo", "pushcube_rgb_ppo")
WHOLE = ("collocated", "disaggregated", "hybrid")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--naive-limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--gaps", action="store_true", help="what is proven of all workloads")
    parser.add_argument("--sweep", action="store_true", help="every graph on every device")
    parser.add_argument("-o", "--output", type=Path, default=Path("planner.json"))
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": describe()}
    result["planning"] = list(planning(given.rounds))
    result["naive"] = list(naive(given.naive_limit))
    result["speedup"] = list(speedups())
    if given.gaps:
        result["gaps"] = list(gaps())
    if given.sweep:
        result["sweep"] = list(sweep())
    given.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nwritten to {given.output}")


def planning(rounds: int) -> Iterator[dict[str, Any]]:
    """Wall time of the command, and the gap it proves."""
    print(f"{'cluster':48} {'GPUs':>6} {'wall s':>8} {'allowed':>8} {'gap':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for cluster, allowed, factor in TARGETS:
            graph = scaled(Path(folder), "pi05_libero", factor)
            walls, told = [], {}
            for _ in range(rounds):
                begun = time.perf_counter()
                told = command(graph, cluster, Path(folder) / "plan.json")
                walls.append(time.perf_counter() - begun)
            gpus = sum(node.count * node.devices for node in parse(cluster).nodes)
            row = {
                "cluster": cluster,
                "gpus": gpus,
                "wall_s": statistics.median(walls),
                "walls_s": walls,
                "allowed_s": allowed,
                "gap": told["gap"],
                "status": told["status"],
                "throughput_env_steps_per_s": told["throughput_env_steps_per_s"],
            }
            print(
                f"{cluster:48} {gpus:6} {row['wall_s']:8.2f} {allowed:8.1f} {told['gap']:9.4%}",
                flush=True,
            )
            yield row


def command(graph: Path, cluster: str, output: Path) -> dict[str, Any]:
    """`ebrl plan … --json`, in a process of its own."""
    line = [sys.executable, "-m", "ebrl.cli.main", "plan", str(graph), "--cluster", cluster]
    done = subprocess.run(
        [*line, "-o", str(output), "--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def scaled(folder: Path, name: str, factor: int) -> Path:
    """The graph with so many times the environments and batch: what a larger cluster would run."""
    text = (ROOT / f"graphs/{name}.py").read_text()
    if factor > 1:
        text = re.sub(r"envs=\((\d+), (\d+)\)", lambda m: f"envs=({m[1]}, {int(m[2]) * 400})", text)
        text = re.sub(
            r"batch=(\d+) \* CHUNK", lambda m: f"batch={int(m[1]) * factor} * CHUNK", text
        )
    path = folder / f"{name}_{factor}.py"
    path.write_text(text)
    return path


def naive(limit: float) -> Iterator[dict[str, Any]]:
    """The model with one variable a device and option, on the first target and on eight of it."""
    program = workload("pi05_libero")
    for cluster in ("a100x8", "8*(a100x8)"):
        hardware = parse(cluster)
        candidates = spaces(program, hardware, shipped(program), CompileOptions())
        (space, *_) = next(same for same in candidates if same[0].mode and same[0].mode.ranks > 1)
        found = planner_naive.plan(space, time_limit_s=limit)
        gpus = sum(node.count * node.devices for node in hardware.nodes)
        print(
            f"{'  one binary a device and option: ' + cluster:48} {gpus:6} {found.seconds:8.2f} "
            f"{'':8} {found.gap:9.4%}  ({found.columns} columns, {found.status})",
            flush=True,
        )
        yield {
            "cluster": cluster,
            "columns": found.columns,
            "status": found.status,
            "gap": found.gap,
            "seconds": found.seconds,
        }


def gaps() -> Iterator[dict[str, Any]]:
    """What is proven, for all four workloads: as published on few GPUs, scaled to many."""
    print(f"\n{'cluster':48} {'workload':24} {'scale':>6} {'CPU s':>7} {'steps/s':>10} {'gap':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for cluster in GAPS:
            gpus = sum(node.count * node.devices for node in parse(cluster).nodes)
            for name in WORKLOADS:
                for factor in (1, 64):
                    if gpus != 64 and (factor > 1) != (gpus > 64):
                        continue
                    program = check(load_graph(scaled(Path(folder), name, factor)))
                    begun = time.process_time()
                    plan = compile(program, parse(cluster), shipped(program))
                    row = {
                        "cluster": cluster,
                        "workload": name,
                        "factor": factor,
                        "cpu_s": time.process_time() - begun,
                        "throughput_env_steps_per_s": plan.prediction.throughput_env_steps_per_s,
                        "gap": plan.prediction.gap,
                        "status": plan.prediction.status,
                    }
                    print(
                        f"{cluster:48} {name:24} {factor:6} {row['cpu_s']:7.2f} "
                        f"{row['throughput_env_steps_per_s']:10.1f} {row['gap']:9.4%}  "
                        f"{row['status']}",
                        flush=True,
                    )
                    yield row


def speedups() -> Iterator[dict[str, Any]]:
    """The plan against the best placement of whole GPUs."""
    print(
        f"\n{'workload':24} {'cluster':8} {'steps/s':>9} {'collocated':>11} {'disaggreg.':>11} "
        f"{'hybrid':>9} {'speed-up':>9}  times"
    )
    for name in WORKLOADS:
        program = workload(name)
        for cluster in ("a100x8", "h100x8"):
            plan = compile(program, parse(cluster), shipped(program))
            rate = plan.prediction.throughput_env_steps_per_s
            others = {
                each.name: each.throughput_env_steps_per_s
                for each in plan.alternatives
                if each.name in WHOLE and each.throughput_env_steps_per_s is not None
            }
            best = max(others, key=lambda each: others[each] or 0.0) if others else None
            whole = others[best] if best is not None else None
            row = {
                "workload": name,
                "cluster": cluster,
                "throughput_env_steps_per_s": rate,
                "gap": plan.prediction.gap,
                "whole_gpus": others,
                "best_whole_gpus": best,
                "speedup": rate / whole if whole else None,
                "splits_sms": splits(plan),
                "sources": {stage.name: stage.source for stage in plan.stages},
            }
            gain = f"{row['speedup']:9.3f}" if whole else f"{'-':>9}"
            sources = ", ".join(sorted({stage.source for stage in plan.stages}))
            told = [f"{others[n]:.1f}" if n in others else "no fit" for n in WHOLE]
            print(
                f"{name:24} {cluster:8} {rate:9.1f} {told[0]:>11} {told[1]:>11} {told[2]:>9} {gain}"
                f"  {sources}",
                flush=True,
            )
            yield row


def splits(plan: Plan) -> bool:
    """Does any device of the plan have its SMs split?"""
    seats = Counter(
        (r.node, r.device) for s in plan.stages for r in s.replicas if r.device is not None
    )
    return any(
        seats[r.node, r.device] > 1
        and r.sms < max(q.sms for s2 in plan.stages for q in s2.replicas)
        for s in plan.stages
        for r in s.replicas
        if r.device is not None
    )


def sweep() -> Iterator[dict[str, Any]]:
    """Every graph on every device of the catalogue."""
    print(f"\n{'graph':24} {'planned':>8} {'refused':>8}  reasons")
    options = CompileOptions(alternatives=False, time_limit_s=20.0)
    for name in (*WORKLOADS, *SMALL):
        program, points = timed(name)
        rows = []
        for device in catalogue():
            for count in (1, 4, 8, 64):
                cluster = f"{device.name}x{count}" if count <= 8 else f"8*({device.name}x8)"
                begun = time.perf_counter()
                row: dict[str, Any] = {"graph": name, "cluster": cluster}
                try:
                    plan = compile(program, parse(cluster), points, options=options)
                except PlanError as error:
                    row["refused"] = error.code
                    row["message"] = error.diagnostics[0].message
                else:
                    assert verify(plan) == ()
                    row["throughput_env_steps_per_s"] = plan.prediction.throughput_env_steps_per_s
                    row["gap"] = plan.prediction.gap
                row["seconds"] = time.perf_counter() - begun
                rows.append(row)
                yield row
        refused = Counter(row["refused"] for row in rows if "refused" in row)
        reasons = ", ".join(f"{count} × {code}" for code, count in sorted(refused.items()))
        print(
            f"{name:24} {len(rows) - refused.total():8} {refused.total():8}  {reasons}", flush=True
        )


def timed(name: str) -> tuple[Program, tuple[Point, ...]]:
    """The graph and its stage times: shipped, or measured here where its stages declare no work."""
    program = workload(name)
    if name in WORKLOADS:
        return program, shipped(program)
    from ebrl.frontend.cache import cache_folder
    from ebrl.runtime.profiling.calibrate import calibrate

    return program, calibrate(
        program, ROOT / f"graphs/{name}.py", cache=cache_folder(), say=print
    ).points


def workload(name: str) -> Program:
    return check(load_graph(ROOT / f"graphs/{name}.py"))


if __name__ == "__main__":
    main()
