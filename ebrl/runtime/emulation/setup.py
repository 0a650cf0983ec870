"""From a plan for hardware that is not here to one that this machine can play, and to the cue of
each worker.

Invariant: stages, replicas, batches, environments, segments and staleness stay the plan's. Changed
are the bytes of a payload where they are shrunk, the number of learner processes (one plays all
ranks, which meet as the plan has it), and which cores the processes may run on (any). Another plan
for the same run is played in the same way, within the rows that the first one left room for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from ebrl.errors import RunError
from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.script import Part, Script, script
from ebrl.planner.plan import Plan, StagePlan
from ebrl.runtime.emulation.cue import Cue, Injection, Load, Sharing
from ebrl.runtime.room import Room

# Declared: what a new process takes until it works. On cores an interpreter is forked and a scene
# is built; on a device there are a context to make, kernels to load and weights to copy.
BIRTH_S = {"cores": 0.5, "device": 2.0}


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


def room(made: Plan) -> Room:
    """What a plan may be followed by: twice as many simulators and more, the others by devices."""
    devices = sum(node.count * node.devices for node in made.cluster.nodes)
    count = {
        kind: len(made.of_kind(kind)[0].replicas) for kind in ("simulate", "generate", "train")
    }
    return Room(
        train=max(count["train"], devices),
        generate=max(count["generate"] + 2, devices),
        simulate=max(
            count["simulate"] + 2, min(2 * count["simulate"] + 4, made.environments.count)
        ),
    )


def cues(
    made: Plan,
    emulation: Emulation,
    *,
    seed: int,
    room: Room,
    asked: Sequence[Injection] = (),
    first: Plan | None = None,
) -> dict[str, Cue]:
    """By worker ("simulate 0"), from the plan as it was made.

    `asked`: what is to go wrong. `first`: the plan that the run began with, whose profile and
    cluster are the truth that is played, whatever the run believes by now.
    """
    first = first or made
    told = msgspec.structs.replace(made, profile=first.profile)
    played = script(told, Conditions(seed=seed))
    places = {(part.kind, part.index): room.row(part.kind, part.index) for part in played.parts}
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
            loads=(loads := tuple(_load(made, played, p, places, members) for p in parts)),
            injections=_for(loads, parts, asked),
            meetings=played.meetings,
            overhead_s=played.reduce_s + played.publish_s,
            seed=seed,
            speed=emulation.speed,
            weights=size,
            cores=sum(node.cores * node.count for node in first.cluster.nodes),
            birth_s=BIRTH_S["cores" if loads[0].device is None else "device"],
        )
        for name, parts in mine.items()
    }


def _load(
    made: Plan,
    played: Script,
    part: Part,
    places: Mapping[tuple[str, int], int],
    members: Mapping[int, Sequence[int]],
) -> Load:
    replica = made.stage(part.stage).replicas[part.index]
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
        device=None if replica.device is None else f"{replica.node}/{replica.device}",
        cores=replica.rated_cores,
    )


def _for(
    loads: Sequence[Load], parts: Sequence[Part], asked: Sequence[Injection]
) -> tuple[Injection, ...]:
    """What concerns one of these replicas."""
    return tuple(
        each
        for each in asked
        if each.kind == "cores"
        or (each.device is not None and any(each.device == load.device for load in loads))
        or any(each.stage == p.stage and each.index in (None, p.index) for p in parts)
    )


def cores_gone(made: Plan, asked: Sequence[Injection], now: float) -> float:
    """Cores of the emulated machine that its own run has lost by now."""
    part = sum(each.chance for each in asked if each.kind == "cores" and now >= each.at_s)
    return min(1.0, part) * sum(node.cores * node.count for node in made.cluster.nodes)
