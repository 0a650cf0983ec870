"""TorchRL's PPO from its own parts: a batched environment, a collector, GAE and the clipped loss.

Runs in the ``torchrl`` environment.
"""

# mypy: disable-error-code="import-not-found, misc, no-untyped-call"
from __future__ import annotations

import argparse
from collections import deque
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import peer_cli
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.envs import EnvBase, GymWrapper, ParallelEnv, RewardSum, SerialEnv, TransformedEnv
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

DEFAULTS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "envs": 32,
        "steps": 100_000,
        "epochs": 4,
        "minibatch": 256,
        "horizon": 128,
        "hidden": [64, 64],
        "threads": 1,
        "vec": "gym",
    },
}


def make_gym() -> gym.Env:
    return gym.make("CartPole-v1", disable_env_checker=True)


def make_env() -> EnvBase:
    return GymWrapper(make_gym(), categorical_action_encoding=True)


def vector(args: argparse.Namespace) -> EnvBase:
    """Gymnasium's own vector costs TorchRL one conversion per step and not one per environment."""
    if args.vec == "gym":
        vec = SyncVectorEnv([make_gym] * args.envs, autoreset_mode=AutoresetMode.SAME_STEP)
        envs = GymWrapper(vec, categorical_action_encoding=True)
    else:
        kind = {"serial": SerialEnv, "parallel": ParallelEnv}[args.vec]
        envs = kind(args.envs, make_env)
    return TransformedEnv(envs, RewardSum())


def network(args: argparse.Namespace, outputs: int) -> MLP:
    return MLP(in_features=4, out_features=outputs, num_cells=args.hidden, activation_class=nn.Tanh)


def flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vec", choices=("gym", "serial", "parallel"))


def main() -> None:
    args = peer_cli.parse_args(DEFAULTS, flags)
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    envs = vector(args)
    actor = ProbabilisticActor(
        TensorDictModule(network(args, 2), ["observation"], ["logits"]),
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(network(args, 1), in_keys=["observation"])
    advantage = GAE(gamma=peer_cli.GAMMA, lmbda=peer_cli.GAE_LAMBDA, value_network=critic)
    loss_module = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=peer_cli.CLIP,
        entropy_bonus=False,
        critic_coeff=peer_cli.VALUE,
        loss_critic_type="l2",
        normalize_advantage=True,
    )
    optimizer = torch.optim.Adam(loss_module.parameters(), peer_cli.LEARNING_RATE, eps=1e-5)
    batch = args.envs * args.horizon
    collector = Collector(
        envs,
        actor,
        frames_per_batch=batch,
        total_frames=-(-args.steps // batch) * batch,
        track_traj_ids=False,
        auto_register_policy_transforms=False,
    )
    returns: deque[float] = deque(maxlen=peer_cli.WINDOW)
    env_steps = 0
    first_step = perf_counter()
    for data in collector:
        train(args, data, advantage, loss_module, optimizer)
        env_steps += data.numel()
        ended = data["next", "done"]
        returns.extend(data["next", "episode_reward"][ended].tolist())
    end = perf_counter()
    collector.shutdown()
    peer_cli.report(
        "torchrl",
        args,
        env_steps=env_steps,
        first_step=first_step,
        end=end,
        ep_rew_mean=float(np.mean(returns)) if returns else float("nan"),
    )


def train(
    args: argparse.Namespace,
    data: TensorDict,
    advantage: GAE,
    loss_module: ClipPPOLoss,
    optimizer: torch.optim.Optimizer,
) -> None:
    with torch.no_grad():
        advantage(data)
    rows = data.reshape(-1).exclude("next", "done", "terminated", "truncated")
    for _ in range(args.epochs):
        for index in torch.randperm(len(rows)).split(args.minibatch):
            losses = loss_module(rows[index])
            loss = losses["loss_objective"] + losses["loss_critic"]
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(loss_module.parameters(), peer_cli.MAX_GRAD_NORM)
            optimizer.step()


if __name__ == "__main__":
    main()
