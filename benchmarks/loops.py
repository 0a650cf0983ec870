"""The runtime's three real loops in one process, round and round, around bodies given to them.

Invariant: nothing of the data plane is imitated. `Simulate`, `Generate` and `Train`, the slab, the
bells, the clocks and the workers' books are those of a run; only processes are left out, so that
what they cost can be told apart and followed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

import msgspec
import numpy as np

from ebrl.frontend.program import (
    ActionProgram,
    EnvironmentProgram,
    Program,
    StageProgram,
    TrainingProgram,
)
from ebrl.frontend.spec import Tensor
from ebrl.planner import layout
from ebrl.runtime.bell import Bell
from ebrl.runtime.boot import Boot, Role
from ebrl.runtime.generate import Generate
from ebrl.runtime.segments import Segments
from ebrl.runtime.simulate import Simulate
from ebrl.runtime.slab import Slab
from ebrl.runtime.train import Train
from ebrl.runtime.worker import Worker
from ebrl.stages.protocols import Environment, LearnerBody, PolicyBody

STAGES: tuple[Role, ...] = ("simulate", "generate", "train")


def program(
    *,
    environments: int,
    obs: dict[str, Tensor],
    action: ActionProgram,
    horizon: int,
    batch: int,
    max_staleness: int = 1,
) -> Program:
    """Of a graph with one stage of each kind."""
    return Program(
        name="loops",
        path="",
        sha256="",
        stages=tuple(
            StageProgram(name=kind, kind=kind, where="", rate="1/1", runs_on=("cpu",), type="")
            for kind in STAGES
        ),
        edges=(),
        environment=EnvironmentProgram(
            obs=obs, action=action, min_count=environments, max_count=environments
        ),
        training=TrainingProgram(horizon=horizon, batch=batch, max_staleness=max_staleness),
    )


class Loops:
    """`of` with these bodies; `turn()` lets each loop have its go once."""

    def __init__(
        self,
        of: Program,
        *,
        environment: Callable[[], Environment],
        policy: PolicyBody,
        learner: LearnerBody,
        serve: int,
    ) -> None:
        """`serve`: environments that are answered at once, and handed over at once."""
        assert of.environment is not None
        assert of.training is not None
        count = of.environment.max_count
        eta = of.training.max_staleness
        numbers = sum(int(np.prod(shape)) for shape in learner.weights().values())
        laid_out = layout.slab_layout(
            of,
            environments=count,
            segments=layout.segment_count(of, count, eta),
            workers=len(STAGES),
            weights_bytes=4 * numbers,
        )
        self.slab = Slab.create(laid_out)
        self.bells = {f"{role} 0": Bell() for role in STAGES}
        self._pipe = os.open(os.devnull, os.O_WRONLY)
        self.workers = {
            role: Worker(self._boot(of, role, row), {}) for row, role in enumerate(STAGES)
        }
        mine = self.workers["simulate"]
        generate, train = (mine.bells_of(name) for name in STAGES[1:])
        self.segments = mine.segments
        self.train = Train(self.workers["train"].slab, self._segments("train"), learner, version=0)
        self.train.publish()
        self.simulate = Simulate(
            mine.slab,
            mine.segments,
            worker=0,
            first=0,
            count=count,
            group=serve,
            seed=0,
            ring_generate=generate[0].ring,
            ring_learner=train[0].ring,
            beat=mine.beat,
        )
        for _ in range(count):
            self.simulate.add(environment())
        self.generate = Generate(
            self.workers["generate"].slab,
            self._segments("generate"),
            policy,
            first=0,
            last=count,
            batch=serve,
            groups=((0, count),),
            seed=0,
        )
        self.reset()
        self._openings = -2
        self._ring_simulate = self.workers["generate"].bells_of("simulate")[0].ring
        for bell in self.bells.values():
            bell.ring()

    def turn(self) -> int:
        """Each loop until it would go to sleep; returns the steps made."""
        steps = self._awake("simulate", self.simulate.sweep)
        self.simulate.episodes.clear()  # a role sends them to the run a few times a second
        self._awake("generate", self._serve)
        self._awake("train", self._update)
        return steps

    def go(self, transitions: int) -> int:
        """Turns until so many transitions have been made; returns how many it were."""
        made = idle = 0
        while made < transitions:
            steps = self.turn()
            made += steps
            idle = 0 if steps else idle + 1
            assert idle < 1000, "nothing moves"
        return made

    def reset(self) -> None:
        """Forget the time that was spent."""
        self.spent_ns = dict.fromkeys(STAGES, 0)  # in each stage's loop

    def close(self) -> None:
        self.simulate.close()
        self.slab.close()
        os.close(self._pipe)
        for bell in self.bells.values():
            bell.close()

    def _awake(self, role: Role, work: Callable[[], int]) -> int:
        """A role's loop, from being rung until it finds nothing to do; returns the items.

        Whether its bell was rung costs nothing here: a role that is not rung does not run.
        """
        worker = self.workers[role]
        begin = perf_counter_ns()
        if not worker.bell.wait(0.0):
            return 0
        total = 0
        while True:
            worker.orders.news()
            since = perf_counter_ns()
            items = work()
            if items:
                worker.count(perf_counter_ns() - since, items)
                total += items
            worker.beat()
            if not items:
                break
        self.spent_ns[role] += perf_counter_ns() - begin
        return total

    def _serve(self) -> int:
        served = int(self.generate.serve().size)
        if served:
            self._ring_simulate()
        return served

    def _update(self) -> int:
        update = self.train.update(lambda: False)
        if self.segments.openings != self._openings:
            self._openings = self.segments.openings
            self.workers["train"].bells_of("simulate")[0].ring()
        return 0 if update is None else update.env_steps

    def _segments(self, role: Role) -> Segments:
        return self.workers[role].segments

    def _boot(self, of: Program, role: Role, row: int) -> Boot:
        assert of.environment is not None
        assert of.training is not None
        count = of.environment.max_count
        return Boot(
            role=role,
            index=0,
            worker=row,
            graph="",
            graph_sha256=None,
            stage=role,
            policy_stage="generate",
            program=msgspec.Raw(msgspec.json.encode(of)),
            layout=self.slab.layout,
            slab_fd=self.slab.fd,
            pipe_fd=self._pipe,
            bells={name: bell.fd for name, bell in self.bells.items()},
            core_set=(),
            threads=1,
            device="cpu",
            seed=0,
            batch=0,
            first=0,
            last=count,
            group=0,
            groups=(),
            simulators=((0, count),),
            generators=((0, count),),
            per_batch=layout.segments_per_batch(of),
            max_staleness=of.training.max_staleness,
            total_steps=None,
            run_dir="",
            run_pid=0,
            checkpoint_every_s=1e9,
            checkpoint_every_updates=None,
            resume=None,
            trained_before=0,
            memory_fds=(-1, -1, -1),
            plan_sha256="",
        )


class Stopwatch:
    """Time spent in methods, without the time in other watched ones that they call.

    A watch costs about as much as a short method, so it is calibrated and taken off again.
    """

    def __init__(self) -> None:
        self.ns: dict[str, int] = {"": 0}
        self.calls: dict[str, int] = {"": 0}
        self.children: dict[str, int] = {"": 0}  # watched calls made by each
        self._inside, self._inner = "", 0
        self._own_ns, self._caller_ns = 0.0, 0.0  # what a watch costs: the method, who calls it
        self._calibrate()

    def of(self, name: str) -> float:
        """Nanoseconds in it, the watches' own taken off."""
        watches = self.calls[name] * self._own_ns + self.children[name] * self._caller_ns
        return max(0.0, self.ns[name] - watches)

    def watch(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        """What does the same and counts."""
        for table in (self.ns, self.calls, self.children):
            table.setdefault(name, 0)

        def watched(*args: Any, **options: Any) -> Any:
            outside, outer = self._inside, self._inner
            self._inside, self._inner = name, 0
            begin = perf_counter_ns()
            try:
                return method(*args, **options)
            finally:
                took = perf_counter_ns() - begin
                self.ns[name] += took - self._inner
                self.calls[name] += 1
                self.children[outside] += 1
                self._inside, self._inner = outside, outer + took

        return watched

    @contextlib.contextmanager
    def on(self, *places: tuple[Any, str, str]) -> Iterator[None]:
        """Watch `name` of objects or classes, as `label`, for a while."""
        before = [(place, name, vars(place).get(name)) for place, name, _ in places]
        for place, name, label in places:
            setattr(place, name, self.watch(getattr(place, name), label))
        try:
            yield
        finally:
            for place, name, was in before:
                if was is None:
                    delattr(place, name)
                else:
                    setattr(place, name, was)

    def _calibrate(self, rounds: int = 100_000) -> None:
        def nothing() -> None:
            pass

        watched = self.watch(nothing, "nothing")
        begin = perf_counter_ns()
        for _ in range(rounds):
            nothing()
        bare = perf_counter_ns() - begin
        begin = perf_counter_ns()
        for _ in range(rounds):
            watched()
        whole = perf_counter_ns() - begin
        self._own_ns = max(0, self.ns["nothing"] - bare) / rounds
        self._caller_ns = max(0.0, (whole - bare) / rounds - self._own_ns)
        for table in (self.ns, self.calls, self.children):
            del table["nothing"]
            table[""] = 0
