"""What a trace costs: one plan run with and without it, in turn, and the price of one record.

    python -m benchmarks.tracing [--rounds 6] [--seconds 10]

CartPole, because nothing here fires as often: whatever steps more slowly pays less. Runs alternate
(off, on, on, off, …), so that what else the machine does falls on both. Printed are the median of
each, the median of the rounds' ratios, and what the records alone come to: their number a second
times the time of one, of the core that writes most. The latter is what a noisy machine can tell.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import timeit
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe
from benchmarks.ours import ROOT, ebrl
from ebrl.runtime.ring import Ring, join


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graph", type=Path, default=ROOT / "graphs/cartpole_ppo.py")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("-o", "--output", type=Path, default=Path("tracing.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        told = measure(given.graph, Path(folder), given.rounds, given.seconds)
    for line in (
        f"without a trace  {told['off']:10,.0f} environment steps/s",
        f"with a trace     {told['on']:10,.0f} environment steps/s",
        f"ratio            {told['ratio']:10.4f} (rounds {min(told['ratios']):.3f} to "
        f"{max(told['ratios']):.3f})",
        f"a record         {told['record_ns']:10.0f} ns; none where it is off "
        f"({told['off_ns']:.0f} ns to find that out)",
        f"firings          {told['firings_per_s']:10,.0f} a second, of the busiest worker",
        f"so records take  {told['share']:10.2%} of its core",
    ):
        print(line)
    given.output.write_text(json.dumps({"machine": describe(), **told}, indent=1) + "\n")


def measure(graph: Path, folder: Path, rounds: int, seconds: float) -> dict[str, Any]:
    """Both ways, in turn."""
    plan = folder / "plan.json"
    ebrl("plan", str(graph), "--cluster", "local", "-o", str(plan))
    rates: dict[bool, list[float]] = {False: [], True: []}
    firings = 0.0
    for number in range(2 * rounds):
        traced = number % 4 in (1, 2)
        more = ("--trace", str(folder / "trace.json")) if traced else ()
        told = ebrl(
            "execute", str(plan), "--seconds", str(seconds), "--seed", str(number // 2),
            "--no-replan", "--logdir", str(folder / f"run{number}"), *more,
        )  # fmt: skip
        rates[traced].append(told["steady_env_steps_per_s"])
        for each in told["stages"].values():
            firings = max(firings, each["firings"] / each["workers"] / seconds)
    ratios = [on / off for on, off in zip(rates[True], rates[False], strict=True)]
    record_s, off_s = record(folder)
    return {
        "graph": graph.name,
        "seconds": seconds,
        "off": statistics.median(rates[False]),
        "on": statistics.median(rates[True]),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "record_ns": record_s * 1e9,
        "off_ns": off_s * 1e9,
        "firings_per_s": firings,
        "share": firings * record_s,
    }


def record(folder: Path) -> tuple[float, float]:
    """Seconds that one firing adds to a worker's account, traced and not."""
    version = np.zeros(1, np.int64)
    ring = Ring(folder / "one.ring", 1 << 17, version)
    none = join(folder, "nobody", 0, version, print)

    def traced() -> None:
        if ring is not None:
            now = time.monotonic_ns()
            ring.add(now - 1000, now, 16)

    def untraced() -> None:
        if none is not None:
            none.add(0, 0, 16)

    def nothing() -> None:
        pass

    calls = 100_000
    took = [
        min(timeit.repeat(each, number=calls, repeat=5)) / calls
        for each in (traced, untraced, nothing)
    ]
    return took[0] - took[2], max(0.0, took[1] - took[2])


if __name__ == "__main__":
    main()
