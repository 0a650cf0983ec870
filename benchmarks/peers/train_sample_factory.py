"""Sample Factory's APPO: rollout, inference and learner processes that never wait for a batch.

Runs in the ``sample_factory`` environment.  Steps are those the learner has trained on, read off
its own messages, so what was collected but not yet learnt from does not count.
"""

# mypy: disable-error-code="import-not-found, misc, no-untyped-call"
from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import peer_cli
import torch
from sample_factory.algo.utils.misc import LEARNER_ENV_STEPS, ExperimentStatus
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

DEFAULTS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "envs": 64,
        "steps": 100_000,
        "epochs": 4,
        "minibatch": 256,
        "horizon": 128,
        "hidden": [64, 64],
        "threads": 1,
        "batch": 4096,
        "workers": 2,
        "splits": 2,
        "policy_workers": 1,
        "mode": "async",
        "batched": 0,
    },
}
NAME = "CartPole-v1"


class FirstStep(gym.Wrapper):
    """Leaves the time of the very first step in a file, then takes itself out of the way."""

    def __init__(self, env: gym.Env, folder: Path) -> None:
        super().__init__(env)
        self.folder = folder

    def step(self, action: Any) -> Any:
        now = perf_counter()
        (self.folder / f"first-{id(self):x}-{now}").write_text(repr(now))
        self.step = self.env.step  # type: ignore[method-assign]
        return self.env.step(action)


def make_env(name: str, cfg: Any, *_: Any, **__: Any) -> gym.Env:
    return FirstStep(gym.make(name, disable_env_checker=True), Path(cfg.train_dir))


def flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=int, help="rows per update")
    parser.add_argument("--workers", type=int, help="rollout processes")
    parser.add_argument("--splits", type=int, help="2 = double-buffered sampling")
    parser.add_argument("--policy-workers", type=int, help="inference processes")
    parser.add_argument("--mode", choices=("async", "sync", "serial"))
    parser.add_argument("--batched", type=int, choices=(0, 1), help="batched sampling")


def config(args: argparse.Namespace, folder: str) -> Any:
    values: dict[str, Any] = {
        "algo": "APPO",
        "env": NAME,
        "experiment": "peer",
        "train_dir": folder,
        "device": "cpu",
        "seed": args.seed,
        "num_workers": args.workers,
        "num_envs_per_worker": args.envs // args.workers,
        "worker_num_splits": args.splits,
        "policy_workers_per_policy": args.policy_workers,
        "async_rl": args.mode == "async",
        "serial_mode": args.mode == "serial",
        "batched_sampling": bool(args.batched),
        "rollout": args.horizon,
        "batch_size": args.minibatch,
        "num_batches_per_epoch": args.batch // args.minibatch,
        "num_epochs": args.epochs,
        "shuffle_minibatches": True,
        "train_for_env_steps": args.steps - 1,
        "learning_rate": peer_cli.LEARNING_RATE,
        "gamma": peer_cli.GAMMA,
        "gae_lambda": peer_cli.GAE_LAMBDA,
        "ppo_clip_ratio": peer_cli.CLIP,
        "exploration_loss_coeff": peer_cli.ENTROPY,
        "value_loss_coeff": peer_cli.VALUE,
        "max_grad_norm": peer_cli.MAX_GRAD_NORM,
        "reward_scale": 0.1,
        "normalize_input": False,
        "normalize_returns": False,
        "use_rnn": False,
        "actor_critic_share_weights": False,
        "nonlinearity": "tanh",
        "save_best_after": 10**9,
        "save_every_sec": 10**6,
        "log_to_file": False,
        "default_niceness": os.nice(0),  # its processes set their own; keep to the caller's
    }
    argv = [f"--{key}={value}" for key, value in values.items()]
    argv += ["--encoder_mlp_layers", *map(str, args.hidden)]
    parser, _ = parse_sf_args(argv=argv)
    return parse_full_cfg(parser, argv)


def main() -> None:
    args = peer_cli.parse_args(DEFAULTS, flags)
    if args.envs % args.workers or args.batch % args.minibatch:
        sys.exit("--envs must be a multiple of --workers, and --batch one of --minibatch")
    torch.set_num_threads(args.threads)
    register_env(NAME, make_env)
    trained: list[tuple[int, float]] = []

    def on_trained(_runner: Any, message: dict[str, Any], _policy: int) -> None:
        trained.append((message[LEARNER_ENV_STEPS], perf_counter()))

    with tempfile.TemporaryDirectory() as folder:
        _, runner = make_runner(config(args, folder))
        runner.policy_msg_handlers[LEARNER_ENV_STEPS].append(on_trained)
        status = runner.init()
        if status == ExperimentStatus.SUCCESS:
            status = runner.run()
        firsts = [float(file.read_text()) for file in Path(folder).glob("first-*")]
    if status != ExperimentStatus.SUCCESS:
        sys.exit(f"Sample Factory ended with status {status}")
    env_steps, end = next(entry for entry in trained if entry[0] >= args.steps)
    returns = runner.policy_avg_stats.get("reward", [[]])[0]
    peer_cli.report(
        "sample_factory",
        args,
        env_steps=env_steps,
        first_step=min(firsts),
        end=end,
        ep_rew_mean=float(np.mean(returns)) if len(returns) else float("nan"),
    )


if __name__ == "__main__":
    main()
