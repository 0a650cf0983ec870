"""What is known about a run while it goes on: episodes, updates, rates.

Invariant: throughput counts distinct trained environment steps, never attempts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

import msgspec

from ebrl.runtime.messages import Updated

RECENT = 100  # episodes that a mean is taken over, as is customary


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """Means over some episodes; None where there is none, or no success is defined."""

    episodes: int
    ep_rew_mean: float | None
    ep_len_mean: float | None
    success_once: float | None


def score(rows: Iterable[tuple[int, float, int, bool | None]]) -> Scores:
    """Means over episodes (environment, return, length, success)."""
    rows = list(rows)
    if not rows:
        return Scores(episodes=0, ep_rew_mean=None, ep_len_mean=None, success_once=None)
    successes = [success for _, _, _, success in rows if success is not None]
    return Scores(
        episodes=len(rows),
        ep_rew_mean=sum(reward for _, reward, _, _ in rows) / len(rows),
        ep_len_mean=sum(length for _, _, length, _ in rows) / len(rows),
        success_once=sum(successes) / len(successes) if successes else None,
    )


class Progress:
    """Gathers messages; answers rates over a window and scores over the last episodes.

    Rates are by the pipeline's own clock, which an emulation may let run faster than ours.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed  # of an emulation: its seconds in one of ours
        self.began = time.monotonic()
        self.first_step_at: float | None = None
        self.last_update_at: float | None = None
        self.first_update_at: float | None = None
        self.episodes = 0
        self.first: list[tuple[int, float, int, bool | None]] = []
        self.recent: deque[tuple[int, float, int, bool | None]] = deque(maxlen=RECENT)
        self.update: Updated | None = None
        self._marks: deque[tuple[float, int]] = deque(maxlen=4096)  # (when, trained this run)
        self.trained = 0

    def finished(self, rows: list[tuple[int, float, int, bool | None]]) -> None:
        """Episodes have ended."""
        self.episodes += len(rows)
        self.recent.extend(rows)
        if len(self.first) < RECENT:
            self.first.extend(rows[: RECENT - len(self.first)])

    def updated(self, message: Updated) -> None:
        """An update has ended."""
        now = time.monotonic()
        self.update = message
        self.trained += message.env_steps
        self.last_update_at = now
        if self.first_update_at is None:
            self.first_update_at = now
        self._marks.append((now, self.trained))

    def rate(self, window_s: float) -> float | None:
        """Trained environment steps per second over about the last `window_s`."""
        window_s /= self.speed
        if len(self._marks) < 2:
            return None
        last_time, last_steps = self._marks[-1]
        for when, steps in self._marks:
            if when >= last_time - window_s and when < last_time:
                return (last_steps - steps) / (last_time - when) / self.speed
        when, steps = self._marks[-2]
        return (last_steps - steps) / (last_time - when) / self.speed

    def overall_rate(self) -> float | None:
        """Trained steps per second, from the first environment step to the last update."""
        if self.first_step_at is None or self.last_update_at is None:
            return None
        return self.trained / max(self.last_update_at - self.first_step_at, 1e-9) / self.speed

    def steady_rate(self) -> float | None:
        """The same between the first update and the last: without filling the pipeline."""
        if len(self._marks) < 2:
            return None
        (begin, before), (end, after) = self._marks[0], self._marks[-1]
        if len(self._marks) == self._marks.maxlen or end <= begin:
            return self.rate(float("inf"))
        return (after - before) / (end - begin) / self.speed
