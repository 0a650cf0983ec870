"""The plan: the contract between compiler and runtime, as typed, versioned, strictly parsed JSON.

Invariant: everything the runtime needs is in here (it never sees the frontend), and everything that
decides the plan is inside the hashed body, while what changes from one compilation to the next with
equal inputs (dates, solve times) is in `made`, outside it. Same inputs: byte-identical body.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from ebrl.errors import PlanError
from ebrl.frontend.program import Program as Program  # noqa: PLC0414 (the runtime knows no frontend)
from ebrl.planner.hardware import Cluster
from ebrl.planner.profile import Point

__all__ = ["Plan", "Program", "encode", "read", "write"]  # Program: the runtime knows no frontend

FORMAT: Literal["ebrl-plan/1"] = "ebrl-plan/1"
Source = Literal["measured", "published", "estimated"]


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One process (or one data-parallel rank) of a stage, bound to concrete hardware."""

    index: int
    node: str
    device: int | None = None  # index on the node; None runs on cores alone
    sms: int = 0  # streaming multiprocessors granted; the whole device when it is not shared
    sm_start: int = 0  # first SM of its disjoint set
    cores: float  # share of cores, fractional on small machines
    core_set: tuple[int, ...] = ()  # affinity; shared with others where cores is fractional
    threads: int = 1  # intra-op threads
    batch: int
    environments: tuple[int, int] | None = (
        None  # [first, last) of the environments it steps or serves
    )
    group: int = 0  # replicas of one data-parallel stage with the same group are one replica
    share: int = 0  # items of one update that this rank takes, in calls of `batch`; 0: not a rank
    rated_cores: float = 0.0  # cores that its stage time holds for; `cores` is its share of them
    busy: float = 0.0  # part of the time that it works at the predicted throughput


class StagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one stage was given. `seconds` is the time of one batch on one replica."""

    name: str
    kind: str
    batch: int
    seconds: float
    items_per_s: float  # of all replicas together, at the planned batch
    utilisation: float
    source: Source
    memory_bytes: int = 0  # per replica
    shards: int = 1  # ranks that a learner's optimizer state is split over
    replicas: tuple[Replica, ...]

    @property
    def cores(self) -> float:
        return sum(each.cores for each in self.replicas)

    @property
    def sms(self) -> int:
        return sum(each.sms for each in self.replicas)


class Environments(msgspec.Struct, frozen=True, kw_only=True):
    """How many environments run, in how many groups each simulation worker hands them over."""

    count: int
    groups: int


class Buffers(msgspec.Struct, frozen=True, kw_only=True):
    """What the data plane allocates before the first step. Sizes in bytes."""

    segments: int
    horizon: int
    segment_bytes: int
    weights_bytes: int  # one of the two buffers
    slab_bytes: int  # everything shared, to the byte


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What the closed form says. `bound` holds for every plan on this hardware and profile."""

    throughput_env_steps_per_s: float
    bound_env_steps_per_s: float
    gap: float  # between the plan and its bound, in terms of the objective, relative
    bottleneck: str  # a stage's name, or "environments", "staleness", …
    why: str
    status: Literal["optimal", "time limit", "effort limit"] = "optimal"
    objective_value: float | None = None  # of the plan's objective: steps/s, price an hour, devices
    objective_bound: float | None = None


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was considered and not chosen."""

    name: str
    throughput_env_steps_per_s: float | None  # None: infeasible
    why: str


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A choice that the user insisted on: `generate.sm=32`."""

    stage: str
    key: str
    value: float


class Interference(msgspec.Struct, frozen=True, kw_only=True):
    """How much these stages slow each other down on one device; `turns`: by taking turns on it."""

    stages: tuple[str, ...]
    factor: float
    turns: bool = False
    source: Source = "estimated"


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """How the plan came about; not part of the hashed body."""

    version: str
    solver: str
    solve_s: float
    total_s: float
    created_at: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A compiled pipeline."""

    format: Literal["ebrl-plan/1"] = FORMAT
    program: Program
    program_sha256: str
    cluster: Cluster
    cluster_sha256: str
    profile: tuple[Point, ...]  # the points the plan rests on, with provenance
    profile_sha256: str
    objective: Literal["throughput", "cost", "devices"] = "throughput"
    at_least: float | None = None
    schedule: Literal["asynchronous", "synchronous"]
    max_staleness: int
    asked_staleness: int | None = None  # what was asked for instead of the graph's own bound
    stages: tuple[StagePlan, ...]
    environments: Environments
    buffers: Buffers
    prediction: Prediction
    alternatives: tuple[Alternative, ...] = ()
    pins: tuple[Pin, ...] = ()
    interference: tuple[Interference, ...] = ()
    notes: tuple[str, ...] = ()
    made: Made

    def stage(self, name: str) -> StagePlan:
        for each in self.stages:
            if each.name == name:
                return each
        raise KeyError(name)

    def of_kind(self, kind: str) -> tuple[StagePlan, ...]:
        return tuple(each for each in self.stages if each.kind == kind)

    def digest(self) -> str:
        """sha256 of the body (everything but `made`), the same before and after a file."""
        body = msgspec.to_builtins(canonical(self))
        del body["made"]
        return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()


def canonical(plan: Plan) -> Plan:
    """The plan as a file would give it back: Python lets a whole number stand where a float is
    declared, and JSON would write the two differently."""
    return msgspec.json.decode(msgspec.json.encode(plan), type=Plan)


def encode(plan: Plan) -> bytes:
    """JSON, indented, with a trailing newline."""
    return msgspec.json.format(msgspec.json.encode(canonical(plan)), indent=2) + b"\n"


def write(plan: Plan, path: Path) -> None:
    """Into a file, or a PlanError."""
    try:
        path.write_bytes(encode(plan))
    except OSError as error:
        raise PlanError(
            "plan-unwritable",
            f"cannot write the plan: {error.strerror}",
            where=str(path),
            hint="name another file with -o",
        ) from error


def read(path: Path) -> Plan:
    """Parse strictly; any fault is a PlanError with the path inside the file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlanError(
            "plan-unreadable",
            f"cannot read the plan: {error.strerror}",
            where=str(path),
            hint="make one with: ebrl plan GRAPH --cluster local -o plan.json",
        ) from error
    try:
        return msgspec.json.decode(data, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if path.suffix == ".py":
            raise PlanError(
                "plan-malformed",
                "this is a graph, not a plan",
                where=str(path),
                hint=f"plan it first: ebrl plan {path} --cluster local -o plan.json",
            ) from error
        raise PlanError(
            "plan-malformed",
            str(error),
            where=str(path),
            hint="the file was edited, cut short or written by another version; plan again",
        ) from error
