"""A PPO in the manner of CleanRL's single file, its CartPoles stepped in C++ by EnvPool.

Runs in the ``cleanrl_envpool`` environment.  EnvPool answers the step after an episode's end with
the next episode's first observation; those rows are left out of the losses and of the count.
"""

# mypy: disable-error-code="import-not-found, misc, no-untyped-call"
from __future__ import annotations

import argparse
from collections import deque
from itertools import pairwise
from time import perf_counter
from typing import Any

import envpool
import numpy as np
import peer_cli
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

DEFAULTS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "envs": 32,
        "steps": 100_000,
        "epochs": 4,
        "minibatch": 256,
        "horizon": 128,
        "hidden": [64, 64],
        "threads": 1,
        "env_threads": 1,
    },
}


def network(sizes: list[int], gain: float) -> nn.Sequential:
    """Two tanh layers and a linear head, initialised as CleanRL does."""
    parts: list[nn.Module] = []
    for index, (size, width) in enumerate(pairwise(sizes)):
        last = index == len(sizes) - 2
        layer = nn.Linear(size, width)
        nn.init.orthogonal_(layer.weight, gain if last else 2**0.5)
        nn.init.zeros_(layer.bias)
        parts += [layer] if last else [layer, nn.Tanh()]
    return nn.Sequential(*parts)


class Trainer:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.envs = envpool.make(
            "CartPole-v1",
            env_type="gymnasium",
            num_envs=args.envs,
            num_threads=args.env_threads,
            seed=args.seed,
        )
        self.actor = network([4, *args.hidden, 2], 0.01)
        self.critic = network([4, *args.hidden, 1], 1.0)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, peer_cli.LEARNING_RATE, eps=1e-5)
        shape = (args.horizon, args.envs)
        self.obs = torch.zeros(*shape, 4)
        self.actions, self.logprobs, self.rewards, self.ended, self.values = (
            torch.zeros(shape) for _ in range(5)
        )
        self.next_obs = torch.as_tensor(self.envs.reset()[0], dtype=torch.float32)
        self.next_ended = torch.zeros(args.envs)
        self.running = np.zeros(args.envs)
        self.returns: deque[float] = deque(maxlen=peer_cli.WINDOW)

    @torch.no_grad()
    def collect(self) -> None:
        for step in range(self.args.horizon):
            self.obs[step], self.ended[step] = self.next_obs, self.next_ended
            policy = Categorical(logits=self.actor(self.next_obs))
            action = policy.sample()
            self.values[step] = self.critic(self.next_obs).flatten()
            self.actions[step], self.logprobs[step] = action, policy.log_prob(action)
            obs, reward, terminated, truncated, _ = self.envs.step(action.int().numpy())
            self.rewards[step] = torch.from_numpy(reward)
            ended = terminated | truncated
            self.running += reward
            if ended.any():
                self.returns.extend(self.running[ended])
                self.running[ended] = 0.0
            self.next_obs = torch.from_numpy(obs).float()
            self.next_ended = torch.from_numpy(ended).float()

    @torch.no_grad()
    def advantages(self) -> Tensor:
        result = torch.zeros_like(self.rewards)
        last = torch.zeros(self.args.envs)
        value, ended = self.critic(self.next_obs).flatten(), self.next_ended
        for step in reversed(range(self.args.horizon)):
            alive = 1.0 - ended
            delta = self.rewards[step] + peer_cli.GAMMA * value * alive - self.values[step]
            last = delta + peer_cli.GAMMA * peer_cli.GAE_LAMBDA * alive * last
            result[step] = last
            value, ended = self.values[step], self.ended[step]
        return result

    def update(self) -> int:
        """Train on the rollout just collected; the number of its rows that were steps."""
        advantages = self.advantages()
        returns = (advantages + self.values).flatten()
        keep = (self.ended == 0).flatten().nonzero().flatten()  # the rest only began an episode
        obs, actions = self.obs.flatten(0, 1), self.actions.flatten()
        logprobs, advantages = self.logprobs.flatten(), advantages.flatten()
        for _ in range(self.args.epochs):
            for rows in keep[torch.randperm(len(keep))].split(self.args.minibatch):
                if len(rows) < 2:
                    continue
                policy = Categorical(logits=self.actor(obs[rows]))
                ratio = (policy.log_prob(actions[rows]) - logprobs[rows]).exp()
                gain = advantages[rows]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                clipped = ratio.clamp(1 - peer_cli.CLIP, 1 + peer_cli.CLIP)
                policy_loss = -torch.min(gain * ratio, gain * clipped).mean()
                value_loss = (self.critic(obs[rows]).flatten() - returns[rows]).square().mean()
                loss = policy_loss + peer_cli.VALUE * 0.5 * value_loss
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.parameters, peer_cli.MAX_GRAD_NORM)
                self.optimizer.step()
        return len(keep)


def main() -> None:
    args = peer_cli.parse_args(
        DEFAULTS, lambda parser: parser.add_argument("--env-threads", type=int)
    )
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    trainer = Trainer(args)
    env_steps = 0
    first_step = perf_counter()
    while env_steps < args.steps:
        trainer.collect()
        env_steps += trainer.update()
    end = perf_counter()
    peer_cli.report(
        "cleanrl_envpool",
        args,
        env_steps=env_steps,
        first_step=first_step,
        end=end,
        ep_rew_mean=float(np.mean(trainer.returns)) if trainer.returns else float("nan"),
    )


if __name__ == "__main__":
    main()
