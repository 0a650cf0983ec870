"""What an emulated worker is told: its times, whom it shares with, and what is to go wrong.

Invariant: plain data, part of a worker's `Boot`; times are the plan's, in its own seconds, and
`speed` says how many of them pass in one real second.
"""

from __future__ import annotations

import msgspec


class Sharing(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that several workers use. `members`: their rows in the slab, this one's too."""

    turns: bool  # a device used in turns; else cores promised more than once
    capacity: float
    members: tuple[int, ...]


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One replica's work: see `ebrl.planner.foresight.script.Part`.

    `row`: where in the slab it says what it wishes of `share`, while it is at work. `device`:
    "node/3", or none; `cores`: how many it keeps busy while it is at work.
    """

    index: int
    row: int
    medians: tuple[float, ...]
    sigma: float
    place: tuple[int, int]
    calls: int = 1
    together: bool = False
    share: Sharing | None = None
    wish: float = 0.0
    device: str | None = None
    cores: float = 0.0


class Injection(msgspec.Struct, frozen=True, kw_only=True):
    """Something that goes wrong `at_s` after the first environment step.

    "drift": times are multiplied by `factor`, growing to it over `ramp_s`. "device": so are those
    of whatever runs on `device`. "cores": a part `chance` of the machine's cores is gone.
    "straggle": a call takes `factor` times as long with probability `chance`. "crash", "hang": the
    worker gets SIGKILL or SIGSTOP, once.
    """

    kind: str
    stage: str = ""
    index: int | None = None  # None: every replica of the stage
    device: str | None = None
    factor: float = 1.0
    at_s: float = 0.0
    ramp_s: float = 0.0
    chance: float = 1.0

    def grown(self, now: float) -> float:
        """Which part of it is there by now, from 0 to 1."""
        if now < self.at_s:
            return 0.0
        return min(1.0, (now - self.at_s) / self.ramp_s) if self.ramp_s > 0 else 1.0


class Cue(msgspec.Struct, frozen=True, kw_only=True):
    """For one worker. A learner plays all its ranks, which meet `meetings` times an update."""

    loads: tuple[Load, ...]
    injections: tuple[Injection, ...] = ()
    meetings: int = 1
    overhead_s: float = 0.0
    seed: int = 0
    speed: float = 1.0
    weights: int = 1  # floats that are published
    cores: float = 0.0  # of the machine
    birth_s: float = 0.0  # that a new process takes before it works
