"""From a plan for hardware that is not here to one that this machine can play, and to the cue of
each worker.

Invariant: stages, replicas, batches, environments, segments and staleness stay the plan's. Changed
are the bytes of a payload where they are shrunk, the number of learner processes (one plays all
ranks, which meet as the plan has it), and which cores the processes may run on (any).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from ebrl.errors import RunError
from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.script import Part, Script, script
from ebrl.planner.plan import Plan, Replica, StagePlan
from ebrl.runtime.emulation.cue import Cue, Injection, Load, Sharing
from ebrl.runtime.emulation.inject import injections


class Emulation(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says of an emulation. `payload_scale`: part of each tensor's items that are
    really moved; `speed`: the plan's seconds in one real one."""

    payload_scale: float = 1.0
    speed: float = 1.0
    inject: tuple[str, ...] = ()


def shrunk(plan: Plan, emulation: Emulation) -> Plan:
    """The plan that is really played."""
    if not 0 < emulation.payload_scale <= 1 or not emulation.speed > 0:
        raise RunError(
            "emulation",
            f"--payload-scale is {emulation.payload_scale:g} and --speed {emulation.speed:g}",
            hint="the scale lies above 0 and at most at 1; the speed above 0",
        )
    program = plan.program
    environment = program.environment
    assert environment is not None
    if emulation.payload_scale < 1:
        obs = {
            path: msgspec.structs.replace(
                tensor,
                shape=(_part(math.prod(map(int, tensor.shape)), emulation.payload_scale),),
            )
            for path, tensor in environment.obs.items()
        }
        environment = msgspec.structs.replace(environment, obs=obs)
        program = msgspec.structs.replace(program, environment=environment)
    return msgspec.structs.replace(
        plan, program=program, stages=tuple(_placed(stage) for stage in plan.stages)
    )


def weights_bytes(plan: Plan, emulation: Emulation) -> int:
    """Bytes that are published, as shrunk."""
    return 4 * _part(math.ceil(plan.buffers.weights_bytes / 4), emulation.payload_scale)


def _part(count: int, scale: float) -> int:
    return max(1, round(count * scale))


def _placed(stage: StagePlan) -> StagePlan:
    """On whatever cores there are; a learner as one process."""
    replicas = stage.replicas[:1] if stage.kind == "train" else stage.replicas
    anywhere = tuple(
        msgspec.structs.replace(each, core_set=(), threads=1, device=None) for each in replicas
    )
    return msgspec.structs.replace(stage, replicas=anywhere)


def rows(made: Plan, workers: Sequence[str]) -> dict[tuple[str, int], int]:
    """(kind, replica) → row in the slab: the workers', then one for each further rank."""
    found = {}
    for row, name in enumerate(workers):
        kind, index = name.split()
        found[kind, int(index)] = row
    for replica in _further(made):
        found["train", replica.index] = len(found)
    return found


def further_ranks(made: Plan) -> int:
    """Ranks of the learner beyond the process that plays them all."""
    return len(_further(made))


def _further(made: Plan) -> list[Replica]:
    return [replica for stage in made.of_kind("train") for replica in stage.replicas[1:]]


def cues(made: Plan, emulation: Emulation, *, seed: int, workers: Sequence[str]) -> dict[str, Cue]:
    """By worker ("simulate 0"), from the plan as it was made; `workers` in the order of rows."""
    played = script(made, Conditions(seed=seed))
    asked = injections(made, emulation.inject)
    places = rows(made, workers)
    members: dict[int, list[int]] = defaultdict(list)
    for part in played.parts:
        if part.resource is not None:
            members[part.resource].append(places[part.kind, part.index])
    mine: dict[str, list[Part]] = defaultdict(list)
    for part in played.parts:
        mine[f"{part.kind} {0 if part.kind == 'train' else part.index}"].append(part)
    size = weights_bytes(made, emulation) // 4
    return {
        name: Cue(
            loads=tuple(_load(played, part, places, members) for part in parts),
            injections=_for(parts, asked),
            meetings=played.meetings,
            overhead_s=played.reduce_s + played.publish_s,
            seed=seed,
            speed=emulation.speed,
            weights=size,
        )
        for name, parts in mine.items()
    }


def _load(
    played: Script,
    part: Part,
    places: Mapping[tuple[str, int], int],
    members: Mapping[int, Sequence[int]],
) -> Load:
    share = None
    if part.resource is not None and len(members[part.resource]) > 1:
        resource = played.resources[part.resource]
        share = Sharing(
            turns=resource.turns,
            capacity=resource.capacity,
            members=tuple(members[part.resource]),
        )
    return Load(
        index=part.index,
        row=places[part.kind, part.index],
        medians=part.medians,
        sigma=part.sigma,
        place=part.place,
        calls=part.calls,
        together=part.together,
        share=share,
        wish=part.wish,
    )


def _for(parts: Sequence[Part], asked: Sequence[Injection]) -> tuple[Injection, ...]:
    """What concerns one of these replicas."""
    return tuple(
        each
        for each in asked
        if any(each.stage == p.stage and each.index in (None, p.index) for p in parts)
    )
