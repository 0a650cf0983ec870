"""Planning beside a run: `python -m ebrl.runtime.watch.planning`, a process of low priority.

The same planner, on the profile as it is believed now. Candidates differ in what they would cost to
take: *stay* is what the plan in force is worth by the new times, *tune* changes only what changes
in place, *anew* changes anything. On devices, where replicas of a stage differ and no set of pins
says which plan is in force, that plan itself is simulated by the new times, and so is the new one;
there is no *tune*. Invariant: the run waits for nothing; it asks whether there is an answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import msgspec

from ebrl.errors import PlanError
from ebrl.planner.compile import compile
from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.hardware import Cluster
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.plan import Pin, Plan, Program
from ebrl.planner.profile import CPU, Point, digest
from ebrl.runtime.watch import around

NICE = 2  # a planner that never gets a core would come too late
STAY, TUNE, ANEW = "stay", "tune", "anew"
RESOLUTION = 0.02  # of the plan's throughput: a late plan costs more than what this leaves
TIME_LIMIT_S = 3.0
SIMULATED_S = 120.0


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """`environments`: as many as the run's memory was laid out for; `respawn`: whether workers may
    be spawned and retired; `cluster`: what is there now, None: what the plan was made for;
    `slow`: devices ("node/3") on which everything takes so much longer; `uneven`: whether ranks of
    a learner can take unequal shares of an update."""

    plan: Plan
    points: tuple[Point, ...]
    environments: int
    respawn: bool = True
    cluster: Cluster | None = None
    slow: dict[str, float] = {}
    uneven: bool = False
    resolution: float = RESOLUTION
    time_limit_s: float = TIME_LIMIT_S


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A plan by the new times; None where none fits."""

    name: str
    plan: Plan | None
    why: str = ""
    foreseen: float | None = None  # env steps/s of a simulation; None: the closed form's

    @property
    def throughput(self) -> float:
        if self.foreseen is not None:
            return self.foreseen
        return 0.0 if self.plan is None else self.plan.prediction.throughput_env_steps_per_s


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates in the order of what they cost to take."""

    candidates: tuple[Candidate, ...]


def answer(question: Question) -> Answer:
    """Plan as asked."""
    if any(each.device is not None for stage in question.plan.stages for each in stage.replicas):
        return Answer(candidates=(_as_it_is(question), *_on_devices(question)))
    return Answer(
        candidates=tuple(
            _candidate(name, question)
            for name in (STAY, TUNE, *((ANEW,) if question.respawn else ()))
        )
    )


def _as_it_is(question: Question) -> Candidate:
    """The plan in force, by the new times. Where cores are gone that it would keep busy, what runs
    on cores alone takes so much longer."""
    plan, points = question.plan, question.points
    cluster = question.cluster or plan.cluster
    wanted = sum(stage.cores for stage in plan.stages)
    crowded = wanted / sum(node.cores * node.count for node in cluster.nodes)
    if crowded > 1:
        points = tuple(_longer(each, crowded) if each.device == CPU else each for each in points)
    kept = msgspec.structs.replace(plan, profile=points, profile_sha256=digest(points))
    return Candidate(name=STAY, plan=kept, foreseen=_foreseen(kept, question.slow))


def _longer(point: Point, factor: float) -> Point:
    return msgspec.structs.replace(
        point, median_s=point.median_s * factor, p95_s=point.p95_s * factor
    )


def _on_devices(question: Question) -> tuple[Candidate, ...]:
    """The best plan for what is there now."""
    if not question.respawn:
        return ()
    cluster = question.cluster or question.plan.cluster
    plain = _candidate(ANEW, question)
    found = [plain]
    if question.slow and plain.plan is not None:
        told = around.rebalanced(plain.plan, question.slow, uneven=question.uneven)
        found.append(msgspec.structs.replace(plain, plan=told))
    if question.slow and (left := around.without(cluster, question.slow)) is not None:
        less = _candidate(ANEW, msgspec.structs.replace(question, cluster=left))
        if less.plan is not None:
            placed = around.renumbered(less.plan, cluster, question.slow)
            found.append(msgspec.structs.replace(less, plan=placed))
    foreseen = [
        msgspec.structs.replace(each, foreseen=_foreseen(each.plan, question.slow))
        for each in found
        if each.plan is not None
    ]
    return (max(foreseen, key=lambda each: each.throughput, default=plain),)


def _foreseen(plan: Plan, slow: Mapping[str, float]) -> float | None:
    try:
        outcome, _ = simulate(plan, Conditions(slow=dict(slow), seconds=SIMULATED_S))
    except PlanError:  # the profile does not cover it: believe the closed form
        return None
    return outcome.throughput_env_steps_per_s


def _candidate(name: str, question: Question) -> Candidate:
    plan = question.plan
    options = CompileOptions(
        pins=(*plan.pins, *_pins(name, plan, plan.pins)),
        interference=plan.interference,
        max_staleness=plan.asked_staleness,
        objective=plan.objective,
        at_least=plan.at_least,
        time_limit_s=question.time_limit_s,
        resolution=question.resolution,
        alternatives=False,
    )
    try:
        made = compile(
            _within(plan.program, question.environments),
            question.cluster or plan.cluster,
            question.points,
            options=options,
        )
    except PlanError as error:
        return Candidate(name=name, plan=None, why=error.diagnostics[0].message)
    program, pins = plan.program, plan.pins
    return Candidate(name=name, plan=msgspec.structs.replace(made, program=program, pins=pins))


def _pins(name: str, plan: Plan, pinned: Sequence[Pin]) -> tuple[Pin, ...]:
    """What a candidate leaves as it is, beyond what the user has pinned himself."""
    if name == ANEW:
        return ()
    taken = {(pin.stage, pin.key) for pin in pinned}
    found = []
    for stage in plan.stages:
        replica = stage.replicas[0]
        wanted: dict[str, float] = {"replicas": len(stage.replicas)}
        if name == STAY:
            if stage.kind == "simulate":
                wanted["environments"] = plan.environments.count
            elif stage.kind != "train":
                wanted["batch"] = replica.batch
            if replica.sms:
                wanted["sms"] = replica.sms
        found += [
            Pin(stage=stage.name, key=key, value=float(value))
            for key, value in wanted.items()
            if (stage.name, key) not in taken
        ]
    return tuple(found)


def _within(program: Program, environments: int) -> Program:
    """No more environments than there is memory for."""
    environment = program.environment
    if environment is None or environment.max_count <= environments:
        return program
    few = min(environment.min_count, environments)
    return msgspec.structs.replace(
        program,
        environment=msgspec.structs.replace(environment, min_count=few, max_count=environments),
    )


class Planning:
    """One question on its way."""

    def __init__(self, question: Question) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ebrl.runtime.watch.planning"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(msgspec.json.encode(question))
            self._process.stdin.close()
        except BrokenPipeError:  # it died: its exit says so
            pass
        os.set_blocking(self._process.stdout.fileno(), False)
        self._read = bytearray()
        self.pid = self._process.pid

    def poll(self) -> Answer | str | None:
        """The answer, why there is none, or None while it is being worked on."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        ended = self._process.poll() is not None
        self._read += self._process.stdout.read() or b""
        if not ended:
            return None
        words = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        self.close()
        if self._process.returncode != 0:
            return words[-1] if words else f"the planner exited with {self._process.returncode}"
        return msgspec.json.decode(bytes(self._read), type=Answer)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def main() -> None:
    """Answer one question."""
    os.nice(NICE)
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    output = os.dup(1)
    os.dup2(2, 1)  # solvers print
    with os.fdopen(output, "wb") as file:
        file.write(msgspec.json.encode(answer(question)))


if __name__ == "__main__":
    main()
