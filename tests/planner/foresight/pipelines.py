"""Random pipelines on random hardware, and plans of known arithmetic, for tests of foresight.

The closed form assumes full batches, no queues, segments that are always admitted, and that who
shares cores or a device with others gets exactly its share, exactly when it needs it. `premises`
says of a plan whether that can be so.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ebrl.frontend.program import Hardware, Program
from ebrl.planner.compile import compile
from ebrl.planner.foresight.seats import shared
from ebrl.planner.foresight.sharing import Clock
from ebrl.planner.hardware import Cluster, NodeClass
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.plan import Plan
from ebrl.planner.profile import Point
from tests.planner.model.cases import GB, cpus, device, pipeline, point

LARGE = 45 * GB  # of a stage on a device of 80 GB, so that two do not take turns on one
MANY = 8  # environments of a simulator on cores
QUICK = CompileOptions(alternatives=False)


def planned(program: Program, cluster: Cluster, points: Sequence[Point]) -> Plan:
    return compile(program, cluster, points, options=QUICK)


def random_plan(seed: int) -> Plan:
    """A node, of cores alone or with one to four devices; one or four steps a decision; every
    stage's times drawn anew."""
    chance = random.Random(seed)
    nodes, chunk = 1, chance.choice([1, 1, 4])
    horizon = chance.choice([1, 2])
    environments = nodes * chance.choice([128, 192, 256])
    batch = environments * horizon * chunk * chance.choice([3, 4, 6])
    learn_s = chance.uniform(0.2, 3.0)  # of an update, beside the rollout of its batch
    step_s = chance.uniform(2e-3, 20e-3)
    runs_on: dict[str, tuple[Hardware, ...]] = {}
    if chance.random() < 0.2:
        cores = chance.choice([9, 12, 16])
        cluster = cpus(nodes, cores)
        points = _simulate_on_cores(step_s)
        base, each = chance.uniform(1e-4, 2e-3), chance.uniform(1e-5, 1e-3)
        points += [point("generate", b, base + each * b) for b in (1, 8, 32, 128)]
        update_s = learn_s * step_s * batch / cores
        points += [point("train", batch // n, update_s / n) for n in (1, 2, 4, 8, 16)]
    else:
        kind = device(sms=4)
        gpus, cores = chance.choice([3, 4]), chance.choice([6, 9])
        node = NodeClass(
            name="devx", count=nodes, cores=cores + 3 * gpus, ram_bytes=512 * GB,
            device=kind, devices=gpus,
        )  # fmt: skip
        cluster = Cluster(text="devx", nodes=(node,))
        on_device = chance.random() < 0.3
        runs_on = {
            "simulate": ("gpu",) if on_device else ("cpu",),
            "generate": ("gpu",),
            "train": ("gpu",),
        }
        base, each = chance.uniform(1e-3, 1e-2), chance.uniform(1e-4, 2e-3)
        points = _on_device("generate", base, each, (1, 4, 16, 64, 256))
        if on_device:
            base, each = chance.uniform(1e-3, 5e-3), chance.uniform(1e-5, 3e-4)
            points += _on_device("simulate", base, each, (1, 4, 16, 64, 256))
        else:
            points += _simulate_on_cores(step_s)
        rate = learn_s * 2e-3 / chunk
        points += _on_device("train", 0.0, rate, tuple(batch // n for n in (1, 2, 4, 8, 16)))
    program = pipeline(
        envs=(environments, environments), horizon=horizon, batch=batch, chunk=chunk,
        max_staleness=2, runs_on=runs_on,
    )  # fmt: skip
    return planned(program, cluster, tuple(points))


def _simulate_on_cores(step_s: float) -> list[Point]:
    return [
        point("simulate", 1, step_s),
        point("simulate", 32, 32 * step_s, size=132_000_000),
    ]


def _on_device(stage: str, base: float, each: float, batches: Sequence[int]) -> list[Point]:
    """A stage that takes in proportion longer on fewer of the four SMs."""
    return [
        point(stage, batch, (base + each * batch) * 4 / sms, device="dev", sms=sms, size=LARGE)
        for batch in sorted(set(batches))
        for sms in (1, 2, 4)
    ]


def premises(plan: Plan) -> bool:
    """Does every replica of the loop have environments enough to queue a little, and does the
    learner share nothing that others want at the same time?"""
    sharing = shared(plan, Clock())
    enough = all(
        last - first >= (MANY if replica.device is None else 2 * replica.batch)
        for stage in plan.stages
        for replica in stage.replicas
        if replica.environments is not None
        for first, last in [replica.environments]
    )
    learner = plan.of_kind("train")[0]
    return enough and all((learner.name, each.index) not in sharing for each in learner.replicas)
