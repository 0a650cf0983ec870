"""What the data plane adds to a transition: the real loops around stage bodies that do nothing.

    python -m benchmarks.data_plane [--environments 64] [--transitions 200000] [--repeats 5]

One process runs the three loops in turn (loops.py), so its figures are work, not waiting: writes to
the slab, states, admission, the bells (rung and read, nobody sleeps), books and ledger, action
noise, weights, clocks, heartbeats. The environments give the same observation for ever and end an
episode every `--episode` steps; the policy answers from two arrays it always has; the learner
returns at once and publishes a policy of 10,000 numbers. Reported is the fastest repeat, and where
the time goes by a stopwatch around the parts, which is another, slower run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.loops import STAGES, Loops, Stopwatch, program
from benchmarks.machine import describe
from ebrl.frontend.program import ActionProgram
from ebrl.frontend.spec import Tensor
from ebrl.runtime.seats import Seat
from ebrl.stages.protocols import Array, Batch, StepResult

TARGET_US = 3.0
WEIGHTS = 10_000
OBSERVED = 4  # numbers in an observation


class Still:
    """An environment in which nothing changes; its cell is written, which is its own work."""

    def __init__(self, episode: int) -> None:
        self._left = self._episode = episode
        self._going = StepResult(1.0, False, False, None)
        self._ended = StepResult(1.0, False, True, None)

    def reset(self, seed: int | None, obs: Mapping[str, Array]) -> None:
        del seed, obs
        self._left = self._episode

    def step(self, action: Array, obs: Mapping[str, Array]) -> StepResult:
        del action, obs
        self._left -= 1
        return self._going if self._left else self._ended

    def close(self) -> None:
        pass


class Silent:
    """A policy that has always decided already."""

    noise_size = 1
    noise_kind: Literal["normal", "uniform"] = "uniform"

    def __init__(self, batch: int) -> None:
        self._action = np.zeros(batch, np.int64)
        self._log_prob = np.zeros(batch, np.float32)

    def weights(self) -> dict[str, tuple[int, ...]]:
        return {"w": (WEIGHTS,)}

    def load_weights(self, flat: Array) -> None:
        pass

    def act(self, obs: Mapping[str, Array], noise: Array) -> tuple[Array, Array]:
        del obs
        return self._action[: len(noise)], self._log_prob[: len(noise)]


class Idle:
    """A learner that learns nothing."""

    def weights(self) -> dict[str, tuple[int, ...]]:
        return {"w": (WEIGHTS,)}

    def write_weights(self, flat: Array) -> None:
        flat[:] = 0.0  # it has to, and it is counted

    def update(self, batch: Batch, should_stop: Any) -> dict[str, float]:
        del batch, should_stop
        return {}

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {}, {}

    def load_state(self, tensors: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        pass


def loops(environments: int, serve: int, horizon: int, episode: int) -> Loops:
    """The three loops over bodies that do nothing; a batch is half of the environments' segments,
    so that none waits for another."""
    of = program(
        environments=environments,
        obs={"": Tensor("float32", (OBSERVED,))},
        action=ActionProgram(kind="discrete", dtype="int64", n=2),
        horizon=horizon,
        batch=horizon * max(1, environments // 2),
    )
    return Loops(
        of,
        environment=lambda: Still(episode),
        policy=Silent(serve),
        learner=Idle(),
        serve=serve,
    )


def parts_of(each: Loops) -> list[tuple[Any, str, str]]:
    """What the stopwatch is put around: (object, method, stage: what it is)."""
    simulate, generate, train = each.simulate, each.generate, each.train
    found: list[tuple[Any, str, str]] = [
        (simulate, "sweep", "simulate: looking for work, the loop over environments"),
        (simulate, "_flush", "simulate: writing rewards, steps and cursors, handing over"),
        (simulate, "_turn", "simulate: ends of episodes and segments"),
        (Seat, "decide", "simulate: carrying a decision out, around the body's step"),
        (generate, "serve", "generate: looking for work, gathering, writing answers"),
        (generate._noise, "draw", "generate: action noise"),
        (generate._weights, "read", "generate: reading weights"),
        (train, "update", "train: around the body's update"),
        (train._body, "write_weights", "train: the body's writing of weights"),
    ]
    for role, segments in ((role, each.workers[role].segments) for role in STAGES):
        for name in ("start", "finish", "take", "commit"):
            found.append((segments, name, f"{role}: the books, {name} of segments"))
        worker = each.workers[role]
        for name in ("count", "beat"):
            found.append((worker, name, f"{role}: clock and heartbeat"))
        found.append((worker.orders, "news", f"{role}: orders"))
        found.append((worker.bell, "wait", f"{role}: bell, waited for"))
        found += [(bell, "ring", f"{role}: bells, rung") for bell in worker._bells.values()]
    return [place for place in found if hasattr(place[0], place[1])]


def measure(each: Loops, transitions: int, repeats: int) -> dict[str, float]:
    """µs a transition by stage, of the fastest repeat."""
    each.go(transitions // 4)
    best: dict[str, float] = {}
    for _ in range(repeats):
        each.reset()
        made = each.go(transitions)
        told: dict[str, float] = {role: ns / 1e3 / made for role, ns in each.spent_ns.items()}
        if not best or sum(told.values()) < sum(best.values()):
            best = told
    return best


def breakdown(each: Loops, transitions: int) -> dict[str, tuple[float, float]]:
    """Part → (µs a transition, calls a transition)."""
    watch = Stopwatch()
    with watch.on(*parts_of(each)):
        made = each.go(transitions)
    return {
        name: (watch.of(name) / 1e3 / made, calls / made)
        for name, calls in watch.calls.items()
        if calls
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--environments", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64, help="answered at once")
    parser.add_argument("--horizon", type=int, default=128)
    parser.add_argument("--episode", type=int, default=200, help="steps in an episode")
    parser.add_argument("--transitions", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    each = loops(options.environments, options.batch, options.horizon, options.episode)
    best = measure(each, options.transitions, options.repeats)
    total = sum(best.values())
    met = "met" if total <= TARGET_US else f"MISSED by {total - TARGET_US:.2f} µs"
    print(f"data plane  {total:6.2f} µs a transition; target {TARGET_US:g} µs {met}")
    for role, spent in best.items():
        print(f"  {role:<9} {spent:6.2f}")
    parts = breakdown(each, options.transitions)
    print(f"\n{'µs':>6} {'calls':>8}  a transition, by a stopwatch")
    for name, (spent, calls) in sorted(parts.items(), key=lambda row: -row[1][0]):
        print(f"{spent:6.2f} {calls:8.4f}  {name}")
    each.close()
    told = {"machine": describe(), "us": best, "total_us": total, "parts": parts}
    if options.output:
        options.output.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
