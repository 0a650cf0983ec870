"""What it takes to go from one plan to another while the run goes on.

In place: cores and threads, batches, groups, how many environments are active. By drain and
respawn: another number of workers, other environments in a worker's hands, another quota of a
device where its enforcer cannot change it in place. Invariant: environments and segments stay
within what the run's memory was laid out for; everything else is refused before anything moves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from ebrl.planner.plan import Plan, Replica
from ebrl.runtime.watch.control import Settings

IN_PLACE_S = 0.1  # of throughput lost: a few batches
ROLES = ("simulate", "generate", "train")


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """By worker ("simulate 0"): what it is told and where it may run; and whether the workers of
    the loop have to be drained and spawned anew, because `respawn` says what changed."""

    settings: dict[str, Settings]
    cores: dict[str, tuple[int, ...]]
    respawn: tuple[str, ...] = ()
    impossible: str = ""

    @property
    def changes(self) -> bool:
        return bool(self.settings or self.cores or self.respawn)

    def words(self) -> str:
        parts = [f"drain and respawn ({', '.join(self.respawn)})"] if self.respawn else []
        for worker, told in sorted(self.settings.items()):
            named = {key: value for key, value in told._asdict().items() if value}
            parts.append(f"{worker}: " + ", ".join(f"{k} {v}" for k, v in named.items()))
        parts += [f"{worker}: cores {list(c)}" for worker, c in sorted(self.cores.items())]
        return "; ".join(parts) or "nothing"


def between(old: Plan, new: Plan, seats: Mapping[str, int]) -> Switch:
    """`seats`: environments that each simulate worker holds now."""
    if new.environments.count > sum(seats.values()):
        return Switch(
            settings={},
            cores={},
            impossible=f"{new.environments.count} environments, and memory for "
            f"{sum(seats.values())}",
        )
    respawn = _respawn(old, new, seats)
    settings: dict[str, Settings] = {}
    cores: dict[str, tuple[int, ...]] = {}
    for role in ROLES:
        before, after = old.of_kind(role)[0], new.of_kind(role)[0]
        if role != "train" and respawn:
            continue  # who is spawned anew is told all of it at birth
        for index, replica in enumerate(after.replicas):
            name = f"{role} {index}"
            was = before.replicas[index]
            told = _settings(role, new, replica, seats.get(name, 0))
            if told != _settings(role, old, was, seats.get(name, 0)):
                settings[name] = told
            if replica.core_set != was.core_set:
                cores[name] = replica.core_set
    return Switch(settings=settings, cores=cores, respawn=respawn)


def _respawn(old: Plan, new: Plan, seats: Mapping[str, int]) -> tuple[str, ...]:
    """What changes that a running worker cannot change."""
    found = []
    for role in ROLES:
        before, after = old.of_kind(role)[0], new.of_kind(role)[0]
        if len(before.replicas) != len(after.replicas):
            found.append(f"{len(after.replicas)} × {after.name} for {len(before.replicas)}")
        elif [r.device for r in before.replicas] != [r.device for r in after.replicas]:
            found.append(f"{after.name} on other devices")
        elif [r.sms for r in before.replicas] != [r.sms for r in after.replicas]:
            found.append(f"{after.name} with {after.replicas[0].sms} SMs")
    simulate = new.of_kind("simulate")[0]
    if not found and any(
        _count(replica) > seats.get(f"simulate {index}", 0)
        for index, replica in enumerate(simulate.replicas)
    ):
        found.append("environments in other hands")
    return tuple(found)


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
