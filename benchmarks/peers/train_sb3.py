"""Stable-Baselines3's PPO as it is shipped: one process learns, a vector of environments waits.

Runs in the ``sb3`` environment (CartPole) or in ``sb3_maniskill`` (PushCube). ``cartpole-zoo``
has the settings that RL Baselines3 Zoo publishes for CartPole-v1, and ends at a mean return of
``--until``.
"""

# mypy: disable-error-code="import-not-found, misc, no-untyped-call"
from __future__ import annotations

import argparse
import contextlib
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
    "cartpole-zoo": {
        "envs": 8,
        "steps": 100_000,
        "epochs": 20,
        "minibatch": 256,
        "horizon": 32,
        "hidden": [64, 64],
        "threads": 1,
        "vec": "dummy",
        "until": 475.0,
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


ALGORITHM: dict[str, Any] = {
    "learning_rate": peer_cli.LEARNING_RATE,
    "gamma": peer_cli.GAMMA,
    "gae_lambda": peer_cli.GAE_LAMBDA,
    "clip_range": peer_cli.CLIP,
    "ent_coef": peer_cli.ENTROPY,
    "vf_coef": peer_cli.VALUE,
    "max_grad_norm": peer_cli.MAX_GRAD_NORM,
}
ZOO: dict[str, Any] = {
    "learning_rate": lambda left: 1e-3 * left,
    "gamma": 0.98,
    "gae_lambda": 0.8,
    "clip_range": lambda left: 0.2 * left,
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What only this peer knows."""
    parser.add_argument("--vec", choices=("dummy", "subproc"))
    parser.add_argument("--until", type=float, help="end at this mean return over 100 episodes")


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
    """Remembers when the first environment step began, and ends at a mean return."""

    first_step = 0.0

    def __init__(self, until: float | None) -> None:
        super().__init__()
        self._until = until

    def _on_training_start(self) -> None:
        self.first_step = perf_counter()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        """Between updates: good enough? Then the next step ends it."""
        returns = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        full = len(returns) == peer_cli.WINDOW
        if self._until is not None and full and float(np.mean(returns)) >= self._until:
            raise ReachedError


class ReachedError(Exception):
    """The return that was asked for."""


def vector(args: argparse.Namespace) -> DummyVecEnv | SubprocVecEnv:
    make: Callable[[], gym.Env] = make_cartpole
    if args.env == "pushcube":
        make = make_pushcube_worker if args.vec == "subproc" else make_pushcube
    if args.vec == "dummy":
        return DummyVecEnv([make] * args.envs)
    return SubprocVecEnv([make] * args.envs, start_method="fork")


def main() -> None:
    args = peer_cli.parse_args(DEFAULTS, add_flags)
    zoo = ZOO if args.env == "cartpole-zoo" else {}
    torch.set_num_threads(args.threads)
    envs = vector(args)
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=args.horizon,
        batch_size=args.minibatch,
        n_epochs=args.epochs,
        **(ALGORITHM | zoo),
        policy_kwargs={"net_arch": {"pi": args.hidden, "vf": args.hidden}},
        stats_window_size=peer_cli.WINDOW,
        seed=args.seed,
        device="cpu",
    )
    clock = Clock(args.until)
    with contextlib.suppress(ReachedError):
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
