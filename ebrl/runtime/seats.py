"""One environment of a simulate worker: its episode, its seeds, and its new life after a fault.

Invariant: no two environments, and no two lives of one, share a stream of random numbers. The
first life's seed is a function of (run's seed, environment); later ones add which life it is. At a
version from which a synchronous run can be continued, episodes begin anew with a seed of (run's
seed, environment, version), whoever lives then: so what resumes equals what never stopped.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebrl.errors import EbrlError
from ebrl.runtime.strikes import Strikes
from ebrl.stages.protocols import Array, Environment

Make = Callable[[], Environment]
CONTAINED = (Exception, SystemExit)  # what an environment may raise without harm to the others


def nothing() -> None:
    """For who asks for nothing to be done."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Rules:
    """How environments are treated."""

    anew_every: int | None = None  # versions, with η = 0: episodes begin anew
    recycle_every: int | None = None  # episodes, then another environment in its place
    patience: int = 5  # with one that fails again and again
    alike: int = 1  # neighbours that begin each episode with the same seed
    whole_episodes: bool = False  # a segment is one of them


RULES = Rules()


@dataclass(slots=True)
class Episode:
    """A finished episode."""

    environment: int
    reward: float
    length: int
    success: bool | None


@dataclass(slots=True)
class Failure:
    """An environment has failed; `steps` were thrown away with it."""

    environment: int
    message: str
    where: str
    steps: int


class Seat:
    """Place `environment` of the run, and whoever sits in it."""

    def __init__(
        self,
        body: Environment,
        make: Make | None,
        environment: int,
        *,
        seed: int,
        patience: int,
        chunk: int,
    ) -> None:
        self.body = body
        self.environment = environment
        self.reward = 0.0
        self.length = 0
        self.episodes = 0  # of this life
        self.success: bool | None = None
        self.held: dict[str, Array] | None = None  # what it waits with; None: it must be reset
        self.anew = 0  # version at which its episodes last began anew
        self.mend_at: float | None = None  # broken, and to be built again then
        self._chunk = chunk  # actions in a decision
        self._make = make
        self._seed = seed
        self._seeded = False
        self._alike: tuple[int, ...] | None = None
        self._strikes = Strikes(patience)  # whether it is enough is the run's to say

    def reset(self, obs: Mapping[str, Array], life: int) -> None:
        """Begin an episode, the first of a life with the seed of that life."""
        self.body.reset(None if self._seeded else self._seed_of(life), obs)
        self._seeded = True

    def like(self, number: int, group: int) -> None:
        """The next reset is that of episode `number` of all in `group`."""
        self._alike = (group, number, 2)
        self._seeded = False

    def decide(
        self, action: Any, obs: Mapping[str, Array]
    ) -> tuple[int, Sequence[float], bool, bool]:
        """Carry a decision out: (steps made, their rewards, terminated, truncated)."""
        if self._chunk == 1:  # as below, for what nearly every environment does
            reward, terminated, truncated, success = self.body.step(action, obs)
            self.reward += reward
            self.length += 1
            if success is not None:
                self.success = bool(self.success) or success
            return 1, (reward,), terminated, truncated
        rewards: list[float] = []
        terminated = truncated = False
        for each in action:
            reward, terminated, truncated, success = self.body.step(each, obs)
            rewards.append(reward)
            self.reward += reward
            self.length += 1
            if success is not None:
                self.success = bool(self.success) or success
            if terminated or truncated:
                break
        return len(rewards), rewards, terminated, truncated

    def forget(self) -> None:
        """The episode that it is in will not be told of; the next reset takes a seed."""
        self.reward, self.length, self.success, self.held = 0.0, 0, None, None
        self._seeded = False

    def finished(self) -> Episode:
        """The episode has ended."""
        told = Episode(self.environment, self.reward, self.length, self.success)
        self.reward, self.length, self.success = 0.0, 0, None
        self.episodes += 1
        return told

    def failed(self, error: BaseException, steps: int) -> Failure:
        """Out of order until it is built again."""
        now = time.monotonic()
        self.mend_at = now + self._strikes.strike(now)
        self.forget()
        if isinstance(error, EbrlError):
            first = error.diagnostics[0]
            return Failure(self.environment, first.message, first.where, steps)
        return Failure(self.environment, f"{type(error).__name__}: {error}", "", steps)

    def rebuild(self) -> None:
        """Another body in place of this one; raises what building it raises."""
        self.close()
        if self._make is not None:
            self.body = self._make()
        self.forget()
        self.episodes = 0
        self.mend_at = None
        self._strikes.mended(time.monotonic())

    def close(self) -> None:
        """Whatever its body says to that."""
        with contextlib.suppress(*CONTAINED):
            self.body.close()

    def _seed_of(self, life: int) -> int:
        if self._alike is not None:
            key: tuple[int, ...] = self._alike
        elif self.anew:
            key = (self.environment, self.anew, 1)
        else:
            key = (self.environment, life) if life else (self.environment,)
        return int(np.random.SeedSequence(self._seed, spawn_key=key).generate_state(1)[0])
