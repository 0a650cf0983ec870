"""The learner as one logical stage: what an update costs beyond its arithmetic, and how that
bends throughput.

An update of B environment steps is split over W ranks in proportion to their speed (Φ items a
second together), the gradients are reduced after every minibatch, and the new weights are
published:

    t_update = B/Φ + overhead,        rate = B / t_update = Φ / (1 + Φ·overhead/B)

A ring all-reduce moves 2(W−1)/W ≤ 2 times the gradients through the slowest link (Patarasu and
Yuan); the bound 2 is taken for every W ≥ 2, so the overhead depends on where the ranks are, not
on how many.

Schedules: asynchronous, R ≤ min(rollout, rate); synchronous, rollout and update alternate, each
on the whole machine: 1/R = 1/rollout + 1/rate. Both are concave in (rollout, Φ), so tangents
bound them from above and the integer program stays linear. Invariant: every `Cut` holds for every
plan of its mode.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from ebrl.frontend.program import Program, StageProgram, Work
from ebrl.planner.hardware import Cluster

Span = Literal["one", "node", "cluster"]
Schedule = Literal["asynchronous", "synchronous"]
HOST_BYTES_PER_S = 10e9  # copies through shared memory within a node


class Mode(msgspec.Struct, frozen=True, kw_only=True):
    """How the learner may be spread: where its ranks are, over how many its state is sharded."""

    hardware: Literal["cpu", "gpu"]
    span: Span
    shards: int
    ranks: int  # at most
    overhead_s: float  # of one update
    batch: int  # environment steps of one update

    @property
    def drag(self) -> float:
        """overhead / B, in seconds an environment step."""
        return self.overhead_s / self.batch


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """R ≤ rollout·R_rollout + learner·Φ + constant."""

    rollout: float
    learner: float
    constant: float


def throughput(schedule: Schedule, mode: Mode | None, rollout: float, learner: float) -> float:
    """Environment steps a second of a rollout rate and a learner capacity Φ."""
    if mode is None:
        return rollout
    if rollout <= 0 or learner <= 0:
        return 0.0
    rate = learner / (1 + learner * mode.drag)
    if schedule == "asynchronous":
        return min(rollout, rate)
    return 1 / (1 / rollout + 1 / rate)


def capacity_for(mode: Mode, rate: float) -> float:
    """Φ that an asynchronous learner needs to keep up with this many environment steps a second."""
    return rate / max(1 - rate * mode.drag, 1e-12)


def cuts(schedule: Schedule, mode: Mode, rollout: float, learner: float) -> tuple[Cut, ...]:
    """Tangents at a point (both positive) of the concave throughput."""
    if schedule == "asynchronous":
        slope = 1 / (1 + learner * mode.drag) ** 2
        rate = learner / (1 + learner * mode.drag)
        return (
            Cut(rollout=1.0, learner=0.0, constant=0.0),
            Cut(rollout=0.0, learner=slope, constant=rate - slope * learner),
        )
    value = throughput(schedule, mode, rollout, learner)
    by_rollout, by_learner = (value / rollout) ** 2, (value / learner) ** 2
    constant = value - by_rollout * rollout - by_learner * learner
    return (Cut(rollout=by_rollout, learner=by_learner, constant=constant),)


def first_cuts(mode: Mode) -> tuple[Cut, ...]:
    """Cuts to begin with: throughput exceeds neither side, nor what the overhead leaves."""
    found = [
        Cut(rollout=1.0, learner=0.0, constant=0.0),
        Cut(rollout=0.0, learner=1.0, constant=0.0),
    ]
    if mode.drag > 0:
        found.append(Cut(rollout=0.0, learner=0.0, constant=1 / mode.drag))
    return tuple(found)


def changed_bytes(work: Work) -> float:
    """What an update changes of the weights."""
    return work.update_bytes or work.weight_bytes


def gradient_bytes(program: Program) -> float:
    """Of one all-reduce: as many bytes as the weights that are trained, where they are known."""
    known = [changed_bytes(s.work) for s in program.of_kind("train") if s.work is not None]
    return max(known, default=published_bytes(program))


def published_bytes(program: Program) -> float:
    """Of one new policy: as measured, else by its own arithmetic, else 0."""
    known = [
        float(s.weights_bytes) or (changed_bytes(s.work) if s.work is not None else 0.0)
        for s in program.of_kind("generate")
    ]
    return max(known, default=0.0)


def reductions(program: Program) -> int:
    """All-reduces in one update: one a minibatch, each epoch."""
    training = program.training
    if training is None:
        return 0
    minibatch = training.minibatch or training.batch
    return training.epochs * math.ceil(training.batch / minibatch)


def modes(program: Program, cluster: Cluster, stage: StageProgram) -> tuple[Mode, ...]:
    """Every way to spread the learner that this cluster allows, simplest first."""
    assert program.training is not None
    batch = program.training.batch
    gradients, published = gradient_bytes(program), published_bytes(program)
    nodes = sum(node.count for node in cluster.nodes)
    network = min(node.network_bytes_per_s for node in cluster.nodes)
    publish = published / (network if nodes > 1 else HOST_BYTES_PER_S)
    found: list[Mode] = []
    for hardware in stage.runs_on:
        hosts = [n for n in cluster.nodes if hardware == "cpu" or n.device is not None]
        if not hosts:
            continue
        per_node = max(n.cores if hardware == "cpu" else n.devices for n in hosts)
        everywhere = sum(n.count * (n.cores if hardware == "cpu" else n.devices) for n in hosts)
        link = min(
            n.device.link_bytes_per_s if hardware == "gpu" and n.device else HOST_BYTES_PER_S
            for n in hosts
        )
        spans: list[tuple[Span, int, float]] = [("one", 1, 0.0)]
        if stage.spans_devices and not (cluster.local and hardware == "cpu"):
            spans += [("node", per_node, link), ("cluster", everywhere, min(network, link))]
        for span, ranks, speed in spans:
            most = min(ranks, batch)
            if (span != "one" and most < 2) or (span == "cluster" and ranks <= per_node):
                continue
            reduce = 0.0 if span == "one" else reductions(program) * 2 * gradients / speed
            for shards in _shards(stage, span, most):
                found.append(
                    Mode(
                        hardware=hardware,
                        span=span,
                        shards=shards,
                        ranks=most,
                        overhead_s=reduce + publish,
                        batch=batch,
                    )
                )
    return tuple(found)


def _shards(stage: StageProgram, span: Span, ranks: int) -> tuple[int, ...]:
    """Ranks that the optimizer's state may be split over (ZeRO; Rajbhandari et al.), most first.

    Reducing to the owners and gathering from them moves as many bytes as an all-reduce, so more
    shards cost nothing but the ranks that they need.
    """
    if span == "one" or stage.work is None or stage.work.state_bytes <= 0:
        return (1,)
    return tuple(n for n in (64, 16, 8, 4, 2) if n <= ranks) or (1,)
