"""Stable-Baselines3's PPO as it is shipped: one process learns, a vector of environments waits.

Runs in the ``sb3`` environment (CartPole) or in ``sb3_maniskill`` (PushCube).
"""

# mypy: disable-error-code="import-not-found, misc, no-untyped-call"
from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import peer_cli
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

DEFAULTS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "envs": 32,
        "steps": 100_000,
        "epochs": 4,
        "minibatch": 256,
        "horizon": 128,
        "hidden": [64, 64],
        "threads": 1,
        "vec": "dummy",
    },
    "pushcube": {
        "envs": 8,
        "steps": 16_384,
        "epochs": 8,
        "minibatch": 512,
        "horizon": 512,
        "hidden": [256, 256],
        "threads": 1,
        "vec": "subproc",
    },
}


def make_cartpole() -> gym.Env:
    env: gym.Env = Monitor(gym.make("CartPole-v1", disable_env_checker=True))
    return env


def make_pushcube() -> gym.Env:
    import mani_skill.envs  # noqa: F401  (registers the task)
    from mani_skill.utils.wrappers.gymnasium import CPUGymWrapper

    env = gym.make(
        "PushCube-v1",
        num_envs=1,
        obs_mode="state",
        control_mode="pd_joint_delta_pos",
        sim_backend="physx_cpu",
        render_backend="none",
        disable_env_checker=True,
    )
    monitored: gym.Env = Monitor(CPUGymWrapper(env))
    return monitored


def make_pushcube_worker() -> gym.Env:
    """In a process of its own: the simulator's small tensors gain nothing from more threads."""
    torch.set_num_threads(1)
    return make_pushcube()


class Clock(BaseCallback):
    """Remembers when the first environment step began."""

    first_step = 0.0

    def _on_training_start(self) -> None:
        self.first_step = perf_counter()

    def _on_step(self) -> bool:
        return True


def vector(args: argparse.Namespace) -> DummyVecEnv | SubprocVecEnv:
    make: Callable[[], gym.Env] = make_cartpole
    if args.env == "pushcube":
        make = make_pushcube_worker if args.vec == "subproc" else make_pushcube
    if args.vec == "dummy":
        return DummyVecEnv([make] * args.envs)
    return SubprocVecEnv([make] * args.envs, start_method="fork")


def main() -> None:
    args = peer_cli.parse_args(
        DEFAULTS, lambda parser: parser.add_argument("--vec", choices=("dummy", "subproc"))
    )
    torch.set_num_threads(args.threads)
    envs = vector(args)
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=args.horizon,
        batch_size=args.minibatch,
        n_epochs=args.epochs,
        learning_rate=peer_cli.LEARNING_RATE,
        gamma=peer_cli.GAMMA,
        gae_lambda=peer_cli.GAE_LAMBDA,
        clip_range=peer_cli.CLIP,
        ent_coef=peer_cli.ENTROPY,
        vf_coef=peer_cli.VALUE,
        max_grad_norm=peer_cli.MAX_GRAD_NORM,
        policy_kwargs={"net_arch": {"pi": args.hidden, "vf": args.hidden}},
        stats_window_size=peer_cli.WINDOW,
        seed=args.seed,
        device="cpu",
    )
    clock = Clock()
    model.learn(args.steps, callback=clock)
    end = perf_counter()
    returns = [episode["r"] for episode in model.ep_info_buffer or ()]
    envs.close()
    peer_cli.report(
        "sb3",
        args,
        env_steps=model.num_timesteps,
        first_step=clock.first_step,
        end=end,
        ep_rew_mean=float(np.mean(returns)) if returns else float("nan"),
    )


if __name__ == "__main__":
    main()
