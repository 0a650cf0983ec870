"""What it takes to go from one plan to another while the run goes on.

In place: cores and threads, batches, groups, how many environments are active. By drain and
respawn: another number of workers, other environments in a worker's hands, another quota of a
device where its enforcer cannot change it in place. Only who is concerned is spawned anew: the
learner by itself, policies by themselves where they keep their environments, else the whole loop.
Invariant: environments, segments and workers stay within what the run's memory was laid out for;
everything else is refused before anything moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from ebrl.planner.plan import Plan, Replica, StagePlan
from ebrl.runtime.watch.control import Settings

IN_PLACE_S = 0.1  # of throughput lost: a few batches
ROLES = ("simulate", "generate", "train")


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """By worker ("simulate 0"): what it is told and where it may run; and whose workers have to be
    drained and spawned anew (`roles`), because `respawn` says what changed. `shares`: whether ranks
    of the learner take other parts of an update, which they are told in place."""

    settings: dict[str, Settings]
    cores: dict[str, tuple[int, ...]]
    respawn: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    shares: bool = False
    impossible: str = ""

    @property
    def changes(self) -> bool:
        return bool(self.settings or self.cores or self.respawn or self.shares)

    def words(self) -> str:
        parts = [f"drain and respawn ({', '.join(self.respawn)})"] if self.respawn else []
        for worker, told in sorted(self.settings.items()):
            named = {key: value for key, value in told._asdict().items() if value}
            parts.append(f"{worker}: " + ", ".join(f"{k} {v}" for k, v in named.items()))
        parts += ["the learner's shares"] if self.shares else []
        parts += [f"{worker}: cores {list(c)}" for worker, c in sorted(self.cores.items())]
        return "; ".join(parts) or "nothing"


def between(
    old: Plan,
    new: Plan,
    seats: Mapping[str, int],
    *,
    room: Mapping[str, int] | None = None,
    sms_in_place: bool = False,
    plays: Callable[[Plan], Plan] = lambda plan: plan,
) -> Switch:
    """`seats`: environments that each simulate worker holds now. `room`: the most workers of each
    kind that there are rows and bells for. `sms_in_place`: the enforcer changes quotas of running
    workers. `plays`: the plan as it is played here, which may be on fewer processes."""
    for role, most in (room or {}).items():
        if (count := len(new.of_kind(role)[0].replicas)) > most:
            return Switch(
                settings={}, cores={}, impossible=f"{count} × {role}, and room for {most}"
            )
    if new.environments.count > sum(seats.values()):
        return Switch(
            settings={},
            cores={},
            impossible=f"{new.environments.count} environments, and memory for "
            f"{sum(seats.values())}",
        )
    respawn, roles = _respawn(old, new, seats, sms_in_place=sms_in_place)
    shares = [[r.share for r in plan.of_kind("train")[0].replicas] for plan in (old, new)]
    old, new = plays(old), plays(new)
    settings: dict[str, Settings] = {}
    cores: dict[str, tuple[int, ...]] = {}
    for role in ROLES:
        before, after = old.of_kind(role)[0], new.of_kind(role)[0]
        if role in roles:
            continue  # who is spawned anew is told all of it at birth
        for index, replica in enumerate(after.replicas):
            name = f"{role} {index}"
            was = before.replicas[index]
            told = _settings(role, new, replica, seats.get(name, 0))
            if told != _settings(role, old, was, seats.get(name, 0)):
                settings[name] = told
            if replica.core_set != was.core_set:
                cores[name] = replica.core_set
    return Switch(
        settings=settings,
        cores=cores,
        respawn=respawn,
        roles=roles,
        shares="train" not in roles and shares[0] != shares[1],
    )


def _respawn(
    old: Plan, new: Plan, seats: Mapping[str, int], *, sms_in_place: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What changes that a running worker cannot change, and whose workers that concerns."""
    found = []
    roles = set()
    for role in ROLES:
        before, after = old.of_kind(role)[0], new.of_kind(role)[0]
        what = _moved(before, after, sms_in_place=sms_in_place)
        if what:
            found.append(what)
            roles.add(role)
        if role == "generate" and _ranges(before) != _ranges(after) and len(after.replicas) > 1:
            if not what:
                found.append(f"{after.name} for other environments")
            roles |= {"simulate", "generate"}
    simulate = new.of_kind("simulate")[0]
    if "simulate" not in roles and any(
        _count(replica) > seats.get(f"simulate {index}", 0)
        for index, replica in enumerate(simulate.replicas)
    ):
        found.append("environments in other hands")
        roles.add("simulate")
    if "simulate" in roles:  # whoever answers knows them by their places
        roles.add("generate")
    return tuple(found), tuple(role for role in ROLES if role in roles)


def _moved(before: StagePlan, after: StagePlan, *, sms_in_place: bool) -> str:
    if len(before.replicas) != len(after.replicas):
        return f"{len(after.replicas)} × {after.name} for {len(before.replicas)}"
    if [(r.node, r.device) for r in before.replicas] != [
        (r.node, r.device) for r in after.replicas
    ]:
        return f"{after.name} on other devices"
    if not sms_in_place and [r.sms for r in before.replicas] != [r.sms for r in after.replicas]:
        return f"{after.name} with {', '.join(str(r.sms) for r in after.replicas)} SMs"
    return ""


def _ranges(stage: StagePlan) -> list[tuple[int, int] | None]:
    return [replica.environments for replica in stage.replicas]


def _settings(role: str, plan: Plan, replica: Replica, seats: int) -> Settings:
    if role == "simulate":
        count = _count(replica)
        return Settings(
            group=math.ceil(count / max(1, plan.environments.groups)),
            active=min(count, seats) if seats else count,
        )
    if role == "generate":
        return Settings(batch=replica.batch, threads=replica.threads)
    return Settings(threads=replica.threads)


def _count(replica: Replica) -> int:
    first, last = replica.environments or (0, 0)
    return last - first
