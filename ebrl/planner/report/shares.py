"""How the stages share each node's cores and each device's multiprocessors, as bars.

Invariant: a plan for two thousand nodes is as short as one for two: equal nodes and devices are one
bar with its count, and every node and device of the cluster is counted in exactly one bar.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ebrl.planner.hardware import DeviceKind, NodeClass
from ebrl.planner.plan import Plan, Replica
from ebrl.planner.report.bars import Bar, Part, bar, colours
from ebrl.planner.report.words import count, number, percent, plural

MOST = 6  # distinct patterns of one class that are shown by themselves
Placed = tuple[str, Replica]  # a stage's name, and a replica of it


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """One class of nodes: how its cores are shared, and its devices."""

    title: str
    cores: tuple[Bar, ...]
    devices: tuple[Bar, ...]


class Share(NamedTuple):
    """What one stage has of a node's cores, or of a device."""

    stage: str
    replicas: float
    amount: float


class Pattern(NamedTuple):
    """One way to share a node's cores or a device; in `turns`, amounts are shares of the time."""

    shares: tuple[Share, ...]
    turns: bool = False


def shares(plan: Plan) -> tuple[Shared, ...]:
    """In the order of the cluster's classes."""
    placed: dict[str, list[Placed]] = defaultdict(list)
    for stage in plan.stages:
        for replica in stage.replicas:
            placed[replica.node].append((stage.name, replica))
    palette = colours(plan)
    found = []
    for node in plan.cluster.nodes:
        local = plan.cluster.local
        here = [
            each for name, each in placed.items() if local or name.rpartition("-")[0] == node.name
        ]
        here += [[] for _ in range(node.count - len(here))]
        found.append(
            Shared(
                title=_title(plan, node),
                cores=_cores(node, here, palette),
                devices=_devices(node, here, palette),
            )
        )
    return tuple(found)


def _title(plan: Plan, node: NodeClass) -> str:
    name = "This machine" if plan.cluster.local else node.name
    parts = [plural(node.cores, "core")]
    if node.device is not None:
        parts.append(f"{node.devices} × {node.device.name}")
    return f"{count(node.count)} × {name}: {' and '.join(parts)}".removeprefix("1 × ")


def _cores(
    node: NodeClass, nodes: Sequence[list[Placed]], palette: Mapping[str, str]
) -> tuple[Bar, ...]:
    def pattern(placed: list[Placed]) -> Pattern:
        granted: dict[str, list[float]] = defaultdict(list)
        for stage, replica in placed:
            granted[stage].append(replica.cores)
        return Pattern(
            tuple(
                Share(stage, len(granted[stage]), float(f"{math.fsum(granted[stage]):.3g}"))
                for stage in palette
                if stage in granted
            )
        )

    bars = []
    for found, times, averaged in patterns(map(pattern, nodes)):
        used = math.fsum(each.amount for each in found.shares)
        parts = [
            Part(
                name=each.stage,
                amount=each.amount,
                value=f"{number(each.amount)} of {plural(node.cores, 'core')}, "
                f"{plural(each.replicas, 'replica')}",
                colour=palette[each.stage],
                short=number(each.amount),
            )
            for each in found.shares
        ]
        note = "not used" if not parts else f"{number(used)} of {plural(node.cores, 'core')}"
        name = "cores" if node.count == 1 else f"cores, {plural(times, 'node')}"
        name += ", on average" if averaged else ""
        bars.append(bar(name, parts, float(node.cores), note=note))
    return tuple(bars)


def _devices(
    node: NodeClass, nodes: Sequence[list[Placed]], palette: Mapping[str, str]
) -> tuple[Bar, ...]:
    if node.device is None:
        return ()
    kind = node.device
    on: list[list[Placed]] = []
    for placed in nodes:
        by_device: dict[int, list[Placed]] = defaultdict(list)
        for stage, replica in placed:
            if replica.device is not None:
                by_device[replica.device].append((stage, replica))
        on += by_device.values()
    on += [[] for _ in range(node.count * node.devices - len(on))]
    order = list(palette)
    return tuple(
        _device_bar(kind, found, times, averaged, palette)
        for found, times, averaged in patterns(_on_device(each, order) for each in on)
    )


def _on_device(placed: list[Placed], order: Sequence[str]) -> Pattern:
    """Side by side where their multiprocessors are apart, else in turns."""
    ranges = sorted((replica.sm_start, replica.sm_start + replica.sms) for _, replica in placed)
    turns = any(a[1] > b[0] for a, b in itertools.pairwise(ranges))
    amounts: dict[str, list[float]] = defaultdict(list)
    for stage, replica in sorted(placed, key=lambda each: each[1].sm_start):
        amounts[stage].append(replica.busy if turns else float(replica.sms))
    stages = sorted(amounts, key=order.index) if turns else list(amounts)
    return Pattern(
        tuple(
            Share(stage, len(amounts[stage]), round(math.fsum(amounts[stage]), 2))
            for stage in stages
        ),
        turns,
    )


def _device_bar(
    kind: DeviceKind, found: Pattern, times: int, averaged: bool, palette: Mapping[str, str]
) -> Bar:
    parts = []
    for each in found.shares:
        amount = percent(each.amount) if found.turns else number(each.amount)
        of = "of the time" if found.turns else f"of {kind.sms} SMs"
        parts.append(
            Part(
                name=each.stage,
                amount=each.amount,
                value=f"{amount} {of}, {plural(each.replicas, 'replica')}",
                colour=palette[each.stage],
                short=amount,
            )
        )
    if not parts:
        note = "not used"
    elif found.turns:
        note = "in turns, share of the time"
    else:
        used = math.fsum(each.amount for each in found.shares)
        note = f"{number(used)} of {kind.sms} SMs"
    name = f"{count(times)} × {kind.name}" + (", on average" if averaged else "")
    scale = 1.0 if found.turns else float(kind.sms)
    return bar(name, parts, scale, note=note)


def patterns(found: Iterable[Pattern]) -> list[tuple[Pattern, int, bool]]:
    """Each distinct pattern and how often it occurs, the most frequent first, unused ones last; of
    many, those that are rare as one: their average (True).
    """
    counted = Counter(found)
    ranked = sorted(counted.items(), key=lambda each: (not each[0].shares, -each[1]))
    if len(ranked) <= MOST + 1:
        return [(pattern, times, False) for pattern, times in ranked]
    shown = [(pattern, times, False) for pattern, times in ranked[: MOST - 1]]
    for turns in (False, True):
        rest = [each for each in ranked[MOST - 1 :] if each[0].turns is turns]
        if rest:
            shown.append((_average(rest, turns), sum(times for _, times in rest), len(rest) > 1))
    return shown


def _average(found: Sequence[tuple[Pattern, int]], turns: bool) -> Pattern:
    times = sum(each for _, each in found)
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for pattern, each in found:
        for share in pattern.shares:
            sums[share.stage][0] += each * share.replicas
            sums[share.stage][1] += each * share.amount
    return Pattern(
        tuple(
            Share(stage, round(replicas / times, 2), amount / times)
            for stage, (replicas, amount) in sums.items()
        ),
        turns,
    )
