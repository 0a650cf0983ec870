"""Learners as a graph declares them.

Invariant: declaring one imports no torch; settings are checked when they are written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ebrl.errors import GraphError
from ebrl.frontend.program import EnvironmentProgram, TrainingProgram
from ebrl.stages.base import Learner, Policy

if TYPE_CHECKING:
    from ebrl.stages.learners.ppo import PPOBody
    from ebrl.stages.protocols import LearnerBody


class PPO(Learner):
    """Proximal policy optimisation with the decoupled objective, so that it bears stale data.

    An update takes `batch` environment steps in segments of `horizon` decisions, `epochs` times in
    minibatches of about `minibatch` (None: the whole batch). `learning_rate` goes linearly to
    `anneal` times itself by the end of the run (None: constant; needs a run with a step limit).

    Advantages: "gae" with `gamma`, `gae_lambda`; "vtrace" with `rho_clip`, `c_clip` too.
    `terminal` is what follows a terminated episode: "zero" (no value), "bootstrap" (the value of
    the final observation, as if truncated), or "absorb" (the last reward, repeated for ever: right
    where an episode ends because the goal is reached and holding it would go on paying).
    `target_kl` ends the epochs early once the mean KL of an epoch exceeds it.
    """

    def __init__(
        self,
        *,
        horizon: int = 16,
        batch: int = 2048,
        epochs: int = 4,
        minibatch: int | None = 256,
        learning_rate: float = 3e-4,
        anneal: float | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip: float = 0.2,
        entropy: float = 0.0,
        value_weight: float = 0.5,
        max_grad_norm: float = 0.5,
        advantages: Literal["gae", "vtrace"] = "gae",
        rho_clip: float = 1.0,
        c_clip: float = 1.0,
        behaviour_cap: float = 10.0,
        normalise_advantages: bool = True,
        target_kl: float | None = None,
        terminal: Literal["zero", "bootstrap", "absorb"] = "zero",
        reward_scale: float = 1.0,
        adam_eps: float = 1e-5,
    ) -> None:
        self.horizon = horizon
        self.batch = batch
        self.epochs = epochs
        self.minibatch = minibatch
        self.learning_rate = learning_rate
        self.anneal = anneal
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.clip = clip
        self.entropy = entropy
        self.value_weight = value_weight
        self.max_grad_norm = max_grad_norm
        self.advantages = advantages
        self.rho_clip = rho_clip
        self.c_clip = c_clip
        self.behaviour_cap = behaviour_cap
        self.normalise_advantages = normalise_advantages
        self.target_kl = target_kl
        self.terminal = terminal
        self.reward_scale = reward_scale
        self.adam_eps = adam_eps
        self._check()

    def _check(self) -> None:
        def need(right: bool, name: str, rule: str) -> None:
            if not right:
                raise GraphError(
                    "setting", f"PPO({name}={getattr(self, name)!r}): {name} must be {rule}"
                )

        need(self.horizon >= 1, "horizon", "at least 1")
        need(self.batch >= self.horizon, "batch", f"at least the horizon, {self.horizon}")
        need(self.epochs >= 1, "epochs", "at least 1")
        need(self.minibatch is None or self.minibatch >= 1, "minibatch", "at least 1, or None")
        need(self.learning_rate > 0, "learning_rate", "positive")
        need(self.anneal is None or 0 <= self.anneal <= 1, "anneal", "in [0, 1], or None")
        need(0 <= self.gamma <= 1, "gamma", "in [0, 1]")
        need(0 <= self.gae_lambda <= 1, "gae_lambda", "in [0, 1]")
        need(0 < self.clip < 1, "clip", "in (0, 1)")
        need(self.max_grad_norm > 0, "max_grad_norm", "positive")
        need(self.advantages in ("gae", "vtrace"), "advantages", '"gae" or "vtrace"')
        need(self.rho_clip >= self.c_clip > 0, "rho_clip", "at least c_clip, which is positive")
        need(
            self.terminal in ("zero", "bootstrap", "absorb"),
            "terminal",
            '"zero", "bootstrap" or "absorb"',
        )
        need(self.terminal != "absorb" or self.gamma < 1, "gamma", 'below 1 with terminal="absorb"')

    def build(
        self,
        policy: Policy,
        environment: EnvironmentProgram,
        training: TrainingProgram,
        *,
        seed: int,
        device: str,
        total_updates: int | None,
    ) -> LearnerBody:
        return self._body()(
            self,
            policy,
            environment,
            training,
            seed=seed,
            device=device,
            total_updates=total_updates,
        )

    def _body(self) -> type[PPOBody]:
        """What `build` makes, imported only there."""
        from ebrl.stages.learners.ppo import PPOBody

        return PPOBody


class GRPO(PPO):
    """Group-relative policy optimisation, for sparse success rewards: no critic, no discount.

    `group` environments next to each other begin each episode alike (same seed), and an episode's
    advantage is its return against those of its group. Each segment is one episode, so `horizon` is
    at least its length: what is longer is cut there. `by_episode` weighs episodes alike instead of
    decisions. Groups are whole in a batch of a synchronous run; with staleness an episode is
    compared with those of its group that are there.
    """

    whole_episodes = True

    def __init__(
        self,
        *,
        horizon: int,
        batch: int,
        group: int = 8,
        epochs: int = 1,
        minibatch: int | None = None,
        learning_rate: float = 3e-4,
        anneal: float | None = None,
        clip: float = 0.2,
        entropy: float = 0.0,
        max_grad_norm: float = 0.5,
        behaviour_cap: float = 10.0,
        target_kl: float | None = None,
        by_episode: bool = False,
        adam_eps: float = 1e-5,
    ) -> None:
        super().__init__(
            horizon=horizon,
            batch=batch,
            epochs=epochs,
            minibatch=minibatch,
            learning_rate=learning_rate,
            anneal=anneal,
            gamma=1.0,
            clip=clip,
            entropy=entropy,
            value_weight=0.0,
            max_grad_norm=max_grad_norm,
            behaviour_cap=behaviour_cap,
            normalise_advantages=False,
            target_kl=target_kl,
            adam_eps=adam_eps,
        )
        if group < 2:
            raise GraphError("setting", f"GRPO(group={group}): group must be at least 2")
        self.group = group
        self.by_episode = by_episode

    def _body(self) -> type[PPOBody]:
        from ebrl.stages.learners.grpo import GRPOBody

        return GRPOBody
