"""Whether to switch, and why: gain after costs, and patience.

A switch is worth it if, over what is left of the run (at most `horizon_s`), the new plan trains
more than `min_gain` more than the old one, the time that the switch itself costs included. After
a switch nothing is decided for `cooldown_s`, after a decision to stay for a third of it; every
switch soon after another doubles that, and a long quiet time brings it back, so what swings faster
than the run can follow is not followed.

Invariant: equal inputs give equal decisions; nothing here looks at a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ebrl.runtime.watch.drift import Finding
from ebrl.runtime.watch.planning import STAY, Candidate

MOST_DOUBLINGS = 5
STAYED = 3  # part of the cooldown after a decision that changed nothing
QUIET = 8  # cooldowns without a switch, after which it is halved


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wants of replanning."""

    enabled: bool = True
    dry_run: bool = False
    min_gain: float = 0.05
    cooldown_s: float = 30.0
    horizon_s: float = 600.0


class Considered(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate: what it gives by the new times, what going there costs, what is gained."""

    name: str
    env_steps_per_s: float
    cost_s: float
    gain: float
    how: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `decisions.jsonl`. `chosen` None: the plan in force stays."""

    at_s: float
    drifted: str
    factors: dict[str, float]
    common: float
    foreign: float
    slow: dict[str, float] = {}
    considered: tuple[Considered, ...]
    chosen: str | None
    why: str
    applied: bool = False
    plan: str = ""  # file in the run directory

    @property
    def benign(self) -> bool:
        """Nothing became slower and nothing is changed: good to know, and no reason to worry."""
        worse = [f for f in (*self.factors.values(), self.common, *self.slow.values()) if f > 1.0]
        return self.chosen is None and not worse and self.foreign < 1e-9

    def line(self) -> str:
        """In one line."""
        rates = ", ".join(f"{c.name} {c.env_steps_per_s:,.1f}" for c in self.considered)
        return f"{self.at_s:.0f} s: {self.drifted}; considered {rates or 'nothing'}; {self.why}"


class Patience:
    """When something may be decided again. All times are the caller's."""

    def __init__(self, cooldown_s: float) -> None:
        self._cooldown_s = cooldown_s
        self._doublings = 0
        self._switched_at: float | None = None
        self._until = float("-inf")

    @property
    def cooldown_s(self) -> float:
        return float(self._cooldown_s * 2**self._doublings)

    def ready(self, now: float) -> bool:
        return now >= self._until

    def decided(self, now: float, *, switched: bool) -> None:
        """A decision was taken."""
        if switched:
            soon = (
                self._switched_at is not None and now - self._switched_at < QUIET * self.cooldown_s
            )
            self._doublings = min(MOST_DOUBLINGS, self._doublings + 1) if soon else 0
            self._switched_at = now
        self._until = now + (self.cooldown_s if switched else self.cooldown_s / STAYED)


def decide(
    finding: Finding,
    candidates: Sequence[Candidate],
    costs: Mapping[str, tuple[float, str]],
    policy: Policy,
    *,
    at_s: float,
    left_s: float,
) -> Decision:
    """`costs`: of each candidate, seconds of throughput lost and how it is reached; a candidate
    that is not in there cannot be reached. `left_s`: of the run."""
    horizon = max(1.0, min(left_s, policy.horizon_s))
    now = next((c.throughput for c in candidates if c.name == STAY), 0.0)
    considered = []
    for each in candidates:
        if each.plan is None or (each.name != STAY and each.name not in costs):
            continue
        cost_s, how = costs.get(each.name, (0.0, "nothing"))
        kept = max(0.0, 1 - cost_s / horizon)
        gain = each.throughput * kept / now - 1 if now > 0 else float("inf")
        considered.append(
            Considered(
                name=each.name,
                env_steps_per_s=each.throughput,
                cost_s=cost_s,
                gain=0.0 if each.name == STAY else gain,
                how=how,
            )
        )
    best = max(considered, key=lambda c: (c.gain, -c.cost_s), default=None)
    chosen = None
    if best is None or best.name == STAY:
        why = "stays: no other plan would be faster by these times"
    elif best.gain <= policy.min_gain:
        why = f"stays: {best.name} would gain {best.gain:.1%}, less than {policy.min_gain:.0%}"
    else:
        chosen = best.name
        verb = "would switch (dry run)" if policy.dry_run else "switches"
        why = f"{verb} to {best.name}, {best.gain:+.1%} after {best.cost_s:.1f} s: {best.how}"
    return Decision(
        at_s=at_s,
        drifted=finding.text,
        factors=finding.factors,
        common=finding.common,
        foreign=finding.foreign,
        slow=finding.slow,
        considered=tuple(considered),
        chosen=chosen,
        why=why,
    )
