"""Synchronous dataflow: how often each stage fires, whether the loops can start, how full buffers
get.

Invariant: everything here is exact (fractions, integers) and knows nothing of stages, only of names
and token counts. After Lee and Messerschmitt, "Synchronous data flow" (1987).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Tokens along one edge, each consumed `reuse` times; `key` is the caller's own mark."""

    source: str
    target: str
    produce: Fraction  # tokens per firing of the source
    consume: Fraction  # tokens per firing of the target
    initial: int = 0  # tokens before the first firing
    reuse: int = 1
    key: int = 0

    @property
    def given(self) -> Fraction:
        """Consumptions that one firing of the source allows."""
        return self.produce * self.reuse


@dataclass(frozen=True, slots=True)
class Balance:
    """Firings per firing of the reference, flows that contradict them, stages without."""

    firings: dict[str, Fraction]
    conflicts: tuple[Flow, ...]
    unreached: tuple[str, ...]


def balance(stages: Sequence[str], flows: Sequence[Flow], reference: str) -> Balance:
    """Solve `firings[source] · given = firings[target] · consume` over all flows.

    The equations are followed outwards from the reference, breadth first in the order given, so a
    conflict is a flow that closes a cycle with another product of rates.
    """
    firings = {reference: Fraction(1)}
    queue = [reference]
    for stage in queue:
        for flow in flows:
            if flow.source == stage and flow.target not in firings:
                firings[flow.target] = firings[stage] * flow.given / flow.consume
                queue.append(flow.target)
            elif flow.target == stage and flow.source not in firings:
                firings[flow.source] = firings[stage] * flow.consume / flow.given
                queue.append(flow.source)
    conflicts = tuple(
        flow
        for flow in flows
        if flow.source in firings
        and firings[flow.source] * flow.given != firings[flow.target] * flow.consume
    )
    unreached = tuple(stage for stage in stages if stage not in firings)
    return Balance(firings, conflicts, unreached)


def smallest(firings: Mapping[str, Fraction]) -> dict[str, int]:
    """The repetition vector: the smallest whole numbers in the same proportions."""
    scale = math.lcm(*(each.denominator for each in firings.values()))
    whole = {name: int(each * scale) for name, each in firings.items()}
    common = math.gcd(*whole.values())
    return {name: each // common for name, each in whole.items()}


def loops(stages: Iterable[str], flows: Iterable[Flow]) -> list[set[str]]:
    """Sets of stages that wait for each other, in a stable order.

    A handful of stages: plain reachability, without a graph library and its time to import.
    """
    onward: dict[str, set[str]] = {stage: set() for stage in stages}
    for flow in flows:
        onward.setdefault(flow.source, set()).add(flow.target)
        onward.setdefault(flow.target, set())
    reach = {stage: _reachable(onward, stage) for stage in onward}
    found = {
        frozenset(other for other in reach[stage] if stage in reach[other])
        for stage in onward
        if stage in reach[stage]
    }
    return sorted((set(each) for each in found if len(each) > 1), key=sorted)


def _reachable(onward: Mapping[str, set[str]], start: str) -> set[str]:
    """Stages that a walk of at least one step from `start` comes to."""
    seen: set[str] = set()
    waiting = list(onward[start])
    while waiting:
        stage = waiting.pop()
        if stage not in seen:
            seen.add(stage)
            waiting.extend(onward[stage])
    return seen


@dataclass(frozen=True, slots=True)
class Deadlock:
    """A cycle of flows, each short of what its target needs, and the tokens each holds."""

    cycle: tuple[Flow, ...]
    tokens: tuple[Fraction, ...]

    @property
    def empty(self) -> bool:
        return not any(flow.initial for flow in self.cycle)


def deadlocks(
    stages: Sequence[str], flows: Sequence[Flow], firings: Mapping[str, Fraction]
) -> list[Deadlock]:
    """Loops that cannot complete one iteration with their initial tokens; balanced flows only.

    It is enough to look inside each loop: what comes from outside, a live producer gives in time.
    """
    found = []
    for loop in loops(stages, flows):
        inner = [flow for flow in flows if flow.source in loop and flow.target in loop]
        stuck = _run(smallest({name: firings[name] for name in sorted(loop)}), inner)
        if stuck is not None:
            found.append(stuck)
    return found


def _run(repetition: Mapping[str, int], flows: Sequence[Flow]) -> Deadlock | None:
    """Play one iteration; where it gets stuck, the cycle that waits."""
    tokens = [Fraction(flow.initial * flow.reuse) for flow in flows]
    left = dict(repetition)
    moved = True
    while moved and any(left.values()):
        moved = False
        for stage, wanted in left.items():
            inputs = [n for n, flow in enumerate(flows) if flow.target == stage]
            can = min([wanted, *(int(tokens[n] / flows[n].consume) for n in inputs)])
            if can == 0:
                continue
            moved = True
            left[stage] -= can
            for n, flow in enumerate(flows):
                tokens[n] -= can * flow.consume if flow.target == stage else 0
                tokens[n] += can * flow.given if flow.source == stage else 0
    if not any(left.values()):
        return None
    short: dict[str, int] = {}  # stage → the input that it waits for
    for n, flow in enumerate(flows):
        if left[flow.target] and tokens[n] < flow.consume:
            short.setdefault(flow.target, n)
    path = [next(iter(short))]
    while (before := flows[short[path[-1]]].source) not in path:
        path.append(before)
    cycle = [short[stage] for stage in reversed(path[path.index(before) :])]
    return Deadlock(tuple(flows[n] for n in cycle), tuple(tokens[n] for n in cycle))


def least_capacity(flow: Flow) -> Fraction:
    """The smallest buffer of a pair that does not block: p + c − gcd(p, c) + d mod gcd.

    Bhattacharyya, Murthy and Lee, "Software Synthesis from Dataflow Graphs" (1996), for d ≤ p + c −
    gcd.
    """
    common = _gcd(flow.produce, flow.consume)
    bound = flow.produce + flow.consume - common + flow.initial % common
    return max(bound, Fraction(flow.initial))


def capacity(flow: Flow, firings: Mapping[str, Fraction], *, iterations: Fraction) -> int:
    """Most tokens, rounded up, with `iterations` firings of the reference in flight."""
    in_flight = math.ceil(firings[flow.source] * flow.produce * iterations)
    return max(in_flight, math.ceil(least_capacity(flow)))


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    scale = math.lcm(a.denominator, b.denominator)
    return Fraction(math.gcd(int(a * scale), int(b * scale)), scale)
