"""Planning beside a run: `python -m ebrl.runtime.watch.planning`, a process of low priority.

The same planner, on the profile as it is believed now. Candidates differ in what they would cost to
take: *stay* is what the plan in force is worth by the new times, *tune* changes only what changes
in place, *anew* changes anything. Invariant: the run waits for nothing; it asks whether there is an
answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import msgspec

from ebrl.errors import PlanError
from ebrl.planner.compile import compile
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.plan import Pin, Plan, Program
from ebrl.planner.profile import Point

NICE = 2  # a planner that never gets a core would come too late
STAY, TUNE, ANEW = "stay", "tune", "anew"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """`environments`: as many as the run's memory was laid out for; `pins`: the user's own;
    `respawn`: whether workers may be spawned and retired."""

    plan: Plan
    points: tuple[Point, ...]
    environments: int
    respawn: bool = True


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A plan by the new times; None where none fits."""

    name: str
    plan: Plan | None
    why: str = ""

    @property
    def throughput(self) -> float:
        return 0.0 if self.plan is None else self.plan.prediction.throughput_env_steps_per_s


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates in the order of what they cost to take."""

    candidates: tuple[Candidate, ...]


def answer(question: Question) -> Answer:
    """Plan as asked."""
    return Answer(
        candidates=tuple(
            _candidate(name, question)
            for name in (STAY, TUNE, *((ANEW,) if question.respawn else ()))
        )
    )


def _candidate(name: str, question: Question) -> Candidate:
    plan = question.plan
    options = CompileOptions(
        pins=(*plan.pins, *_pins(name, plan, plan.pins)),
        interference=plan.interference,
        max_staleness=plan.asked_staleness,
        objective=plan.objective,
        at_least=plan.at_least,
        time_limit_s=10.0,
        alternatives=False,
    )
    try:
        made = compile(
            _within(plan.program, question.environments),
            plan.cluster,
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
