"""How fast a plan is simulated, and how an event loop of our own compares with SimPy.

    python -m benchmarks.foresight [--seconds 60] [-o foresight.json]

The first table simulates plans of 8 and of 1,024 GPUs. The second simulates one small model, a
node's loop of simulators, policies and a learner, twice: by processes of SimPy, where that is
installed (it is no dependency), and by callbacks on a heap, as `ebrl simulate` does. Both must
make the same number of decisions and updates; then their times can be compared.
"""

from __future__ import annotations

import argparse
import heapq
import json
import resource
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.planner import scaled
from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.planner.cluster import parse
from ebrl.planner.compile import compile
from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.shipped import shipped

PLANS = (("a100x8", 1), ("128*(a100x8)", 64))  # cluster; environments and batch scaled to it
STEP_S, ANSWER_S, EACH_S, UPDATE_S = 0.1, 5e-3, 2e-3, 2.0  # of the small model
SIMULATORS, ENVIRONMENTS, BATCH, ROWS, SEGMENTS = 64, 512, 64, 8, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="to simulate")
    parser.add_argument("-o", "--output", type=Path, default=Path("foresight.json"))
    given = parser.parse_args()
    result = {
        "machine": describe(),
        "plans": [plan(cluster, factor, given.seconds) for cluster, factor in PLANS],
        "loops": loops(10 * given.seconds),
    }
    given.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nwritten to {given.output}")


def plan(cluster: str, factor: int, seconds: float) -> dict[str, Any]:
    """One plan of pi05_libero."""
    with tempfile.TemporaryDirectory() as folder:
        program = check(load_graph(scaled(Path(folder), "pi05_libero", factor)))
    options = CompileOptions(alternatives=False)
    made = compile(program, parse(cluster), shipped(program), options=options)
    outcome, _ = simulate(made, Conditions(seconds=seconds, spread=0.2))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{cluster:16} {seconds:.0f} s simulated in {outcome.wall_s:6.2f} s  "
        f"{outcome.events:>9,} events  {outcome.events_per_s:>9,.0f} a second  {peak:,.0f} MB"
    )
    return {
        "cluster": cluster,
        "seconds": seconds,
        "wall_s": outcome.wall_s,
        "events": outcome.events,
        "events_per_s": outcome.events_per_s,
        "peak_mb": peak,
    }


def loops(seconds: float) -> list[dict[str, Any]]:
    """The small model, by each."""
    found: list[dict[str, Any]] = []
    for name, runs in (("own heap", own), ("SimPy", with_simpy)):
        begun = time.perf_counter()
        try:
            decisions, updates = runs(seconds)
        except ImportError:
            print(f"{name:16} not installed")
            continue
        wall = time.perf_counter() - begun
        print(
            f"{name:16} {seconds:.0f} s simulated in {wall:6.2f} s  {decisions:>9,} decisions  "
            f"{decisions / wall:>9,.0f} a second  {updates} updates"
        )
        found.append({"by": name, "wall_s": wall, "decisions": decisions, "updates": updates})
    if len(found) == 2:
        assert found[0]["decisions"] == found[1]["decisions"], "not the same model"
        assert found[0]["updates"] == found[1]["updates"], "not the same model"
        print(f"SimPy takes {found[1]['wall_s'] / found[0]['wall_s']:.1f} times as long")
    return found


class Counts:
    """What both models share: who is where, and what a decision leads to."""

    def __init__(self) -> None:
        self.rows = [0] * ENVIRONMENTS
        self.ready = self.decisions = self.updates = 0

    def stepped(self, env: int) -> None:
        self.decisions += 1
        self.rows[env] += 1
        if self.rows[env] == ROWS:
            self.rows[env] = 0
            self.ready += 1


def own(seconds: float) -> tuple[int, int]:
    """Callbacks on a heap."""
    counts, number = Counts(), 0
    heap: list[tuple[float, int, Callable[[float], None]]] = []
    queues: list[deque[int]] = [deque() for _ in range(SIMULATORS)]
    stepping = [False] * SIMULATORS
    waiting: deque[int] = deque()
    answering = updating = False

    def at(when: float, what: Callable[[float], None]) -> None:
        nonlocal number
        number += 1
        heapq.heappush(heap, (when, number, what))

    def step(now: float, simulator: int) -> None:
        if stepping[simulator] or not queues[simulator]:
            return
        stepping[simulator] = True
        env = queues[simulator].popleft()
        at(now + STEP_S, lambda when: stepped(when, simulator, env))

    def stepped(now: float, simulator: int, env: int) -> None:
        stepping[simulator] = False
        counts.stepped(env)
        waiting.append(env)
        answer(now)
        update(now)
        step(now, simulator)

    def answer(now: float) -> None:
        nonlocal answering
        if answering or not waiting:
            return
        answering = True
        taken = [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]
        at(now + ANSWER_S + EACH_S * len(taken), lambda when: answered(when, taken))

    def answered(now: float, taken: list[int]) -> None:
        nonlocal answering
        answering = False
        for env in taken:
            queues[env % SIMULATORS].append(env)
        for env in taken:
            step(now, env % SIMULATORS)
        answer(now)

    def update(now: float) -> None:
        nonlocal updating
        if updating or counts.ready < SEGMENTS:
            return
        updating = True
        counts.ready -= SEGMENTS
        at(now + UPDATE_S, updated)

    def updated(now: float) -> None:
        nonlocal updating
        updating = False
        counts.updates += 1
        update(now)

    waiting.extend(range(ENVIRONMENTS))
    answer(0.0)
    while heap and heap[0][0] < seconds:
        when, _, what = heapq.heappop(heap)
        what(when)
    return counts.decisions, counts.updates


def with_simpy(seconds: float) -> tuple[int, int]:
    """The same by SimPy's processes: each sleeps until it is rung, works, and rings others."""
    import simpy  # type: ignore[import-not-found]  # no dependency: for this comparison alone

    env_, counts = simpy.Environment(), Counts()
    queues: list[deque[int]] = [deque() for _ in range(SIMULATORS)]
    waiting: deque[int] = deque(range(ENVIRONMENTS))
    bells: dict[object, Any] = {}

    def ring(who: object) -> None:
        bell = bells.pop(who, None)
        if bell is not None:
            bell.succeed()

    def asleep(who: object) -> Any:
        bells[who] = env_.event()
        return bells[who]

    def simulator(number: int) -> Generator[Any, None, None]:
        while True:
            while not queues[number]:
                yield asleep(number)
            env = queues[number].popleft()
            yield env_.timeout(STEP_S)
            counts.stepped(env)
            waiting.append(env)
            ring("policy")
            if counts.ready >= SEGMENTS:
                ring("learner")

    def policy() -> Generator[Any, None, None]:
        while True:
            while not waiting:
                yield asleep("policy")
            taken = [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]
            yield env_.timeout(ANSWER_S + EACH_S * len(taken))
            for env in taken:
                queues[env % SIMULATORS].append(env)
            for env in taken:
                ring(env % SIMULATORS)

    def learner() -> Generator[Any, None, None]:
        while True:
            while counts.ready < SEGMENTS:
                yield asleep("learner")
            counts.ready -= SEGMENTS
            yield env_.timeout(UPDATE_S)
            counts.updates += 1

    for number in range(SIMULATORS):
        env_.process(simulator(number))
    env_.process(policy())
    env_.process(learner())
    env_.run(until=seconds)
    return counts.decisions, counts.updates


if __name__ == "__main__":
    main()
