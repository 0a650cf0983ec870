"""What a simulation found, and the statistics of it.

Throughput is distinct trained environment steps a second between two updates, after a warm-up;
its confidence interval is that of batch means (Law and Kelton): the updates in between are cut
into runs of equal length, whose rates are nearly independent. Invariant: nothing is counted that
was not trained on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

# 97.5 % points of Student's t, by degrees of freedom.
T975 = {2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 19: 2.093}
FEWEST = 6  # updates that an interval is taken over


class StageOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One stage. `busy`: part of the time that a replica works, on average; `planned_busy`: what
    the plan says. `batch`: mean size of a call. `queue`: environments (or full segments, for the
    learner) that wait, on average, at all replicas together. `sms_busy`, `cores_busy`: SMs and
    cores at work, on average."""

    name: str
    kind: str
    replicas: int
    busy: float
    planned_busy: float
    batch: float
    queue: float
    calls: int
    sms_busy: float = 0.0
    cores_busy: float = 0.0


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """What one cause takes of the closed form's throughput; negative: what it adds."""

    cause: str
    env_steps_per_s: float
    share: float  # of the closed form
    what: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """`confidence_env_steps_per_s`: 95 %, none where there were too few updates. `staleness`:
    versions behind → share of the trained steps. `rollout_env_steps_per_s`: produced.
    `learner`: parts of the time that it computes, reduces and publishes, waits for a batch."""

    throughput_env_steps_per_s: float
    confidence_env_steps_per_s: tuple[float, float] | None
    predicted_env_steps_per_s: float
    error_vs_plan: float
    rollout_env_steps_per_s: float
    seconds: float
    warm_up_s: float
    first_update_s: float | None
    updates: int
    produced: int
    trained: int
    discarded: int
    in_flight: int
    stages: tuple[StageOutcome, ...]
    staleness_mean: float
    staleness_max: int
    staleness: dict[str, float]
    parked: float  # environments, on average
    ready: float  # full segments that wait for the learner, on average
    learner: dict[str, float]
    why: tuple[Term, ...] = ()
    seed: int = 0
    events: int = 0
    wall_s: float = msgspec.field(default=0.0)

    @property
    def events_per_s(self) -> float:
        return self.events / self.wall_s if self.wall_s > 0 else 0.0


def throughput(
    updates: Sequence[tuple[float, int]], warm: int
) -> tuple[float, tuple[float, float] | None]:
    """Trained steps a second after update number `warm` (from 0), and its interval."""
    kept = updates[warm:]
    if len(kept) < 2:
        return 0.0, None
    rate = (kept[-1][1] - kept[0][1]) / (kept[-1][0] - kept[0][0])
    return rate, interval(kept)


def interval(updates: Sequence[tuple[float, int]]) -> tuple[float, float] | None:
    """95 % by batch means, weighted by time; None for fewer than `FEWEST` updates."""
    count = len(updates) - 1
    if count < FEWEST:
        return None
    batches = 20 if count >= 40 else 10 if count >= 20 else 3
    rates, lengths = [], []
    for i in range(batches):
        begin, end = updates[i * count // batches], updates[(i + 1) * count // batches]
        lengths.append(end[0] - begin[0])
        rates.append((end[1] - begin[1]) / (end[0] - begin[0]))
    mean = sum(r * t for r, t in zip(rates, lengths, strict=True)) / sum(lengths)
    variance = sum((r - mean) ** 2 for r in rates) / (batches - 1)
    half = T975[batches - 1] * math.sqrt(variance / batches)
    return max(0.0, mean - half), mean + half
