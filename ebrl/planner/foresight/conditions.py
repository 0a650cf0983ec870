"""What a simulation assumes beyond the plan: how long, which seed, what varies, who waits for whom.

Invariant: the defaults add nothing that the plan and its profile do not say. Spread comes from
the profile's own percentiles; stragglers and shorter episodes are there when they are asked for.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds` None: as long as some sixty updates take, at least a minute.

    `spread`: p95 ÷ median − 1 of every stage whose profile states none; None: those do not vary.
    `vary` False: nothing does. `stragglers`: the chance that a call takes `straggler_factor` times
    as long. `episode_steps`: mean length of an episode that may end at any step (a geometric law,
    cut at the graph's limit); None: each runs to the limit; `episodes` False: none ever ends.
    `slow`: devices ("node/3") and how much longer everything takes there than the profile says.
    `admission` False: no bound on staleness; `transport` False: weights and segments cross at once.
    """

    seconds: float | None = None
    seed: int = 0
    vary: bool = True
    spread: float | None = None
    stragglers: float = 0.0
    straggler_factor: float = 5.0
    episode_steps: float | None = None
    episodes: bool = True
    admission: bool = True
    transport: bool = True
    slow: dict[str, float] = {}


class Discipline(msgspec.Struct, frozen=True, kw_only=True):
    """Who waits for whom in the loop of simulators and policies.

    `together`: environments that are stepped and answered as one: "environment", each by itself;
    "worker", those of one simulating process (in the plan's groups); "everybody", all that one
    policy serves. `merge`: several such sets may share a batch, whoever is ready.
    `rounds`: no environment starts on the next batch before all have ended the last one.
    """

    together: Literal["environment", "worker", "everybody"] = "environment"
    merge: bool = True
    rounds: bool = False


RUNTIME = Discipline()
# With max_staleness = 0 the runtime fixes who shares a batch, so that runs can be repeated.
SYNCHRONOUS = Discipline(together="worker", merge=False, rounds=True)


def of_schedule(schedule: str) -> Discipline:
    """What EBRL's runtime does."""
    return SYNCHRONOUS if schedule == "synchronous" else RUNTIME
