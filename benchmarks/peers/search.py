"""Find each peer's best settings on this machine, since a peer is owed its best.

Every candidate trains for a short while, in turn and more than once; the fastest try of each
counts, because other work on the machine can only slow a try down.  Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import PeerRunError, run_peer
from .venvs import DEFAULT_ROOT

Settings = dict[str, Any]


def _vectors(batch: int, kinds: Sequence[str], envs: Sequence[int]) -> list[Settings]:
    return [{"vec": kind, "envs": n, "horizon": batch // n} for kind in kinds for n in envs]


def _factory(envs: int, workers: int, splits: int, mode: str, **more: int) -> Settings:
    batch = 2048 if envs == 16 else 4096
    base = {"envs": envs, "workers": workers, "splits": splits, "mode": mode, "batch": batch}
    return base | {"batched": 1} | more


CANDIDATES: dict[tuple[str, str], list[Settings]] = {
    ("sb3", "cartpole"): [
        *_vectors(2048, ("dummy", "subproc"), (2, 4, 8, 16)),
        {"vec": "dummy", "envs": 32, "horizon": 128},
        {"vec": "dummy", "envs": 16, "horizon": 128, "threads": 2},
    ],
    ("sb3", "pushcube"): [
        *_vectors(4096, ("subproc",), (2, 4, 8, 16)),
        *_vectors(4096, ("dummy",), (2, 8)),
        {"vec": "subproc", "envs": 8, "horizon": 512, "threads": 2},
    ],
    ("sample_factory", "cartpole"): [
        _factory(16, 1, 1, "serial"),
        _factory(32, 1, 1, "serial"),
        _factory(16, 2, 1, "sync"),
        _factory(32, 2, 1, "sync"),
        _factory(32, 1, 1, "async"),
        _factory(32, 2, 2, "async"),
        _factory(32, 2, 2, "async", batched=0),
        _factory(64, 1, 1, "async"),
        _factory(64, 1, 2, "async"),
        _factory(64, 2, 1, "async"),
        _factory(64, 2, 2, "async"),
        _factory(64, 2, 2, "async", batched=0),
        _factory(64, 2, 2, "async", policy_workers=2),
        _factory(128, 2, 2, "async"),
    ],
    ("cleanrl_envpool", "cartpole"): [
        {"envs": 8, "horizon": 256},
        {"envs": 16, "horizon": 128},
        {"envs": 32, "horizon": 128},
        {"envs": 32, "horizon": 128, "env_threads": 2},
    ],
    ("rllib", "cartpole"): [
        {"runners": 1, "envs": 8},
        {"runners": 1, "envs": 16},
        {"runners": 1, "envs": 32},
        {"runners": 1, "envs": 64},
        {"runners": 2, "envs": 16},
        {"runners": 1, "envs": 8, "threads": 2},
    ],
    ("torchrl", "cartpole"): [
        *_vectors(2048, ("gym", "serial", "parallel"), (16,)),
        {"vec": "gym", "envs": 32, "horizon": 128},
    ],
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Try a peer's settings and print a table.")
    parser.add_argument("peer", choices=sorted({peer for peer, _ in CANDIDATES}))
    parser.add_argument("--env", default="cartpole")
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--root", type=Path, default=DEFAULT_ROOT)
    args = parser.parse_args()
    candidates = CANDIDATES.get((args.peer, args.env))
    if candidates is None:
        parser.error(f"no candidates for {args.peer} on {args.env}")
    best = [0.0] * len(candidates)
    for _ in range(args.repeats):
        for index, settings in enumerate(candidates):
            try:
                result = run_peer(
                    args.peer, args.env, root=args.root, steps=args.steps, settings=settings
                )
            except PeerRunError as error:
                print(error, file=sys.stderr, flush=True)
                continue
            best[index] = max(best[index], result["env_steps_per_s"])
            print(f"{best[index]:9.0f}  {settings}", file=sys.stderr, flush=True)
    print("| env steps/s | settings |\n|---:|---|")
    for rate, settings in sorted(zip(best, candidates, strict=True), key=lambda row: -row[0]):
        print(f"| {rate:,.0f} | {', '.join(f'{k} {v}' for k, v in settings.items())} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
