"""From a plan to the instructions of each worker process.

Invariant: every environment of the plan has exactly one simulate and one generate worker.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import msgspec

from ebrl.errors import RunError
from ebrl.planner.layout import SPARE_WORKERS, Layout, segments_per_batch, slab_layout
from ebrl.planner.plan import Plan, StagePlan
from ebrl.runtime.boot import Boot, Role
from ebrl.runtime.emulation.cue import Cue
from ebrl.runtime.quota.devices import Devices
from ebrl.runtime.room import Room

Range = tuple[int, int]
ROLES = ("simulate", "generate", "train")


def layout_of(plan: Plan, weights_bytes: int, room: Room) -> Layout:
    """The slab of this plan, with rows for as many workers as there is room for."""
    return slab_layout(
        plan.program,
        environments=plan.environments.count,
        segments=plan.buffers.segments,
        workers=room.rows - SPARE_WORKERS,
        weights_bytes=weights_bytes,
    )


def boots(
    plan: Plan,
    layout: Layout,
    *,
    room: Room,
    graph: str,
    graph_sha256: str | None,
    slab_fd: int,
    bells: dict[str, int],
    seed: int,
    total_steps: int | None,
    run_dir: str,
    checkpoint_every_s: float,
    checkpoint_every_updates: int | None,
    resume: str | None,
    trained_before: int,
    memory_fds: tuple[int, int, int],
    recycle_every: int | None,
    patience: int,
    devices: Devices,
    trace_records: int = 0,
    emulation: Mapping[str, Cue] | None = None,
) -> tuple[Boot, ...]:
    """One `Boot` a worker: learner first (it takes longest to be useful), simulators last."""
    simulate, generate, train = (plan.of_kind(role)[0] for role in ROLES)
    simulators = _ranges(plan, simulate)
    generators = _ranges(plan, generate)
    program = msgspec.Raw(msgspec.json.encode(plan.program))
    found: list[Boot] = []
    order: tuple[tuple[Role, StagePlan, tuple[Range, ...]], ...] = (
        ("train", train, ((0, plan.environments.count),) * len(train.replicas)),
        ("generate", generate, generators),
        ("simulate", simulate, simulators),
    )
    for role, stage, ranges in order:
        for index, (replica, (first, last)) in enumerate(zip(stage.replicas, ranges, strict=True)):
            place = devices.place(plan, f"{role} {index}", replica)
            group = math.ceil((last - first) / max(1, plan.environments.groups))
            found.append(
                Boot(
                    role=role,
                    index=index,
                    worker=room.row(role, index),
                    graph=graph,
                    graph_sha256=graph_sha256,
                    stage=stage.name,
                    policy_stage=generate.name,
                    program=program,
                    layout=layout,
                    slab_fd=slab_fd,
                    pipe_fd=-1,
                    bells=bells,
                    core_set=replica.core_set,
                    threads=replica.threads,
                    device=place.device,
                    environment=place.environment,
                    seed=seed,
                    batch=replica.batch,
                    first=first,
                    last=last,
                    group=group,
                    groups=_groups(plan, simulators, (first, last), replica.batch),
                    simulators=simulators,
                    generators=generators,
                    per_batch=segments_per_batch(plan.program),
                    max_staleness=plan.max_staleness,
                    total_steps=total_steps,
                    run_dir=run_dir,
                    run_pid=os.getpid(),
                    checkpoint_every_s=checkpoint_every_s,
                    checkpoint_every_updates=checkpoint_every_updates,
                    resume=resume,
                    trained_before=trained_before,
                    memory_fds=memory_fds,
                    plan_sha256=plan.digest(),
                    recycle_every=recycle_every,
                    patience=patience,
                    trace_records=trace_records,
                    ranks=len(train.replicas),
                    emulation=None if emulation is None else emulation.get(f"{role} {index}"),
                )
            )
    return tuple(found)


def _ranges(plan: Plan, stage: StagePlan) -> tuple[Range, ...]:
    """Environments of each replica, as planned; they must cover all, once."""
    found = tuple(replica.environments or (0, 0) for replica in stage.replicas)
    expected = 0
    for first, last in found:
        if first != expected or last <= first:
            break
        expected = last
    if expected != plan.environments.count:
        raise RunError(
            "plan-environments",
            f"the replicas of `{stage.name}` cover environments {list(found)}, "
            f"not each of 0–{plan.environments.count - 1} once",
            hint="the plan was edited; plan again",
        )
    return found


def _groups(
    plan: Plan, simulators: tuple[Range, ...], mine: Range, batch: int
) -> tuple[Range, ...]:
    """The fixed batches of the synchronous mode: each worker's environments in `groups` parts."""
    found: list[Range] = []
    for begins, ends in simulators:
        first, last = max(begins, mine[0]), min(ends, mine[1])
        size = min(batch, math.ceil((last - first) / max(1, plan.environments.groups)))
        found.extend((begin, min(begin + size, last)) for begin in range(first, last, max(size, 1)))
    return tuple(found)
