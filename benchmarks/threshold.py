"""Seconds until CartPole is solved: ours, ours in synchronous turns, and Stable-Baselines3.

    python -m benchmarks.threshold [--rounds 5] [--root DIR]

Solved is a mean return of 475 over the last 100 episodes; the clock starts at the first environment
step, as in `benchmarks.runtime`. Every round runs each contender once, in turn, each with its own
settings: graphs/cartpole_ppo.py, the same with `--max-staleness 0`, and those that RL Baselines3
Zoo publishes. A run that does not get there counts as never.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.ours import ROOT, ebrl
from benchmarks.peers import run_peer

SOLVED = 475.0
STEPS = 150_000
SB3_STEPS = 100_000  # what the Zoo's schedule is made for
CONTENDERS = ("ebrl", "ebrl in turns", "sb3")


def ours(seed: int, *more: str) -> float:
    """Seconds to the threshold; infinite where it is not reached."""
    with tempfile.TemporaryDirectory(prefix="ebrl-threshold-") as folder:
        plan, run = Path(folder) / "plan.json", Path(folder) / "run"
        graph = str(ROOT / "graphs/cartpole_ppo.py")
        ebrl("plan", graph, "--cluster", "local", "-o", str(plan), *more)
        ebrl("execute", str(plan), "--steps", str(STEPS), "--seed", str(seed), "--logdir", str(run))
        for text in (run / "progress.jsonl").read_text().splitlines():
            line = json.loads(text)
            if line["episodes"] >= 100 and (line["ep_rew_mean"] or 0.0) >= SOLVED:
                return float(line["seconds"])
    return math.inf


def seconds(contender: str, seed: int, root: Path) -> float:
    """One run of one of them."""
    if contender != "sb3":
        return ours(seed, *(() if contender == "ebrl" else ("--max-staleness", "0")))
    told = run_peer("sb3", "cartpole-zoo", root=root, steps=SB3_STEPS, settings={"seed": seed})
    return float(told["seconds"]) if (told["ep_rew_mean"] or 0.0) >= SOLVED else math.inf


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--root", type=Path, default=ROOT / ".peers")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmark-threshold.json"))
    options = parser.parse_args()
    took: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for seed in range(1, options.rounds + 1):
        for name in CONTENDERS:
            took[name].append(seconds(name, seed, options.root))
            print(f"seed {seed}: {name} {took[name][-1]:.2f} s", file=sys.stderr, flush=True)
    print(f"{'':<14}{'median':>9}{'least':>9}{'most':>9}{'it ÷ ebrl':>11}")
    for name, values in took.items():
        ratio = statistics.median(b / a for a, b in zip(took["ebrl"], values, strict=True))
        print(
            f"{name:<14}{statistics.median(values):>7.2f} s{min(values):>7.2f} s"
            f"{max(values):>7.2f} s{ratio:>10.2f}×"
        )
    options.output.write_text(json.dumps(took) + "\n")


if __name__ == "__main__":
    main()
