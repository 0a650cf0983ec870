"""What every peer's script says and hears: the same flags in, the same one line of JSON out.

The clock starts at the first environment step and stops when the last update is done; what came
before (imports, environments, processes) is told apart as ``startup_s``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Defaults = Mapping[str, Mapping[str, Any]]

# One set of hyperparameters for every peer; only what decides the speed is a flag.
LEARNING_RATE = 3e-4
GAMMA = 0.99
GAE_LAMBDA = 0.95
CLIP = 0.2
ENTROPY = 0.0
VALUE = 0.5
MAX_GRAD_NORM = 0.5
WINDOW = 100  # episodes in ep_rew_mean


def layers(text: str) -> list[int]:
    """Parse ``64,64`` into layer widths."""
    return [int(part) for part in text.split(",")]


def parse_args(
    defaults: Defaults,
    add_flags: Callable[[argparse.ArgumentParser], object],
    argv: Sequence[str] | None = None,
) -> argparse.Namespace:
    """Parse the common flags and the peer's own; the defaults are those of the chosen task."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", choices=sorted(defaults), default="cartpole")
    for flag in ("envs", "steps", "epochs", "minibatch", "horizon", "threads"):
        parser.add_argument(f"--{flag}", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hidden", type=layers, help="widths of the two layers, e.g. 64,64")
    add_flags(parser)
    env = parser.parse_known_args(argv)[0].env
    parser.set_defaults(**defaults[env])
    return parser.parse_args(argv)


def process_age() -> float:
    """Seconds since this process was started."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(after_name[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def report(
    peer: str,
    args: argparse.Namespace,
    *,
    env_steps: int,
    first_step: float,
    end: float,
    ep_rew_mean: float,
) -> None:
    """Print the result; times are ``time.perf_counter`` readings, one clock for all processes."""
    settings = {key: value for key, value in vars(args).items() if key not in ("env", "envs")}
    startup = process_age() - (time.perf_counter() - first_step)
    result = {
        "peer": peer,
        "env": args.env,
        "envs": args.envs,
        "env_steps": env_steps,
        "seconds": round(end - first_step, 4),
        "env_steps_per_s": round(env_steps / (end - first_step), 2),
        "ep_rew_mean": None if math.isnan(ep_rew_mean) else round(ep_rew_mean, 3),
        "startup_s": round(startup, 3),
        "settings": settings,
    }
    print(json.dumps(result), flush=True)
