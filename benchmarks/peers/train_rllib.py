"""RLlib's APPO on its new stack: environment runners sample all the time, a learner in the driver
takes clipped updates from a circular buffer of their batches.

Counted are distinct steps that were sampled and trained; a batch is taken from the buffer as often
as other peers pass over theirs.
"""

# mypy: disable-error-code="import-not-found, misc, no-untyped-call"
from __future__ import annotations

import argparse
import logging
import math
import os
from time import perf_counter
from typing import Any

os.environ.setdefault("RAY_DEDUP_LOGS", "0")

import peer_cli
import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

DEFAULTS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "envs": 32,
        "runners": 1,
        "steps": 60_000,
        "epochs": 4,
        "minibatch": 256,
        "horizon": 128,
        "hidden": [64, 64],
        "threads": 1,
        "batch": 4096,
    }
}
CORES = 4  # as Ray counts them: it admits by them and holds nobody to them


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What only this peer knows."""
    parser.add_argument("--runners", type=int, help="processes that step --envs environments each")
    parser.add_argument("--batch", type=int, help="steps of one batch of the buffer")


def algorithm(args: argparse.Namespace) -> Algorithm:
    return (
        APPOConfig()
        .environment("CartPole-v1")
        .env_runners(
            num_env_runners=args.runners,
            num_envs_per_env_runner=args.envs,
            rollout_fragment_length=args.horizon,
        )
        .learners(num_learners=0)
        .training(
            train_batch_size_per_learner=args.batch,
            minibatch_size=args.minibatch,
            circular_buffer_num_batches=2,
            circular_buffer_iterations_per_batch=args.epochs,
            lr=peer_cli.LEARNING_RATE,
            gamma=peer_cli.GAMMA,
            lambda_=peer_cli.GAE_LAMBDA,
            clip_param=peer_cli.CLIP,
            entropy_coeff=peer_cli.ENTROPY,
            vf_loss_coeff=peer_cli.VALUE,
            grad_clip=peer_cli.MAX_GRAD_NORM,
            use_kl_loss=False,
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=args.hidden, fcnet_activation="tanh", vf_share_layers=False
            )
        )
        .reporting(min_time_s_per_iteration=1)
        .debugging(seed=args.seed, log_level="ERROR")
        .build_algo()
    )


def main() -> None:
    args = peer_cli.parse_args(DEFAULTS, add_flags)
    ray.init(
        num_cpus=CORES, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False
    )
    torch.set_num_threads(args.threads)  # of the learner, which is in this process
    trainer = algorithm(args)
    first_step = perf_counter()
    steps, mean = 0, math.nan
    while steps < args.steps:
        told = trainer.train()
        sampled = told["env_runners"].get("num_env_steps_sampled_lifetime") or 0
        learner = told.get("learners", {}).get("default_policy", {})
        trained = learner.get("num_module_steps_trained_lifetime", 0)
        steps = int(min(sampled, trained))
        mean = float(told["env_runners"].get("episode_return_mean") or math.nan)
    end = perf_counter()
    trainer.stop()
    ray.shutdown()
    peer_cli.report(
        "rllib", args, env_steps=steps, first_step=first_step, end=end, ep_rew_mean=mean
    )


if __name__ == "__main__":
    main()
