"""What watching asks of a run, and what it reads off it."""

from __future__ import annotations

import time
from typing import Protocol

from ebrl.planner.plan import Plan
from ebrl.runtime.events import Events
from ebrl.runtime.options import Options
from ebrl.runtime.progress import Progress
from ebrl.runtime.room import Room
from ebrl.runtime.watch import apply
from ebrl.runtime.watch.switch import ROLES
from ebrl.runtime.watch.window import Row, Rows


class Host(apply.Host, Protocol):
    """A run. `made`: its first plan as it was made."""

    made: Plan
    room: Room
    progress: Progress
    events: Events
    options: Options


def left_s(host: Host, speed: float) -> float:
    """Seconds that the run will still take, by its own rate; the plan's, as all here."""
    left, rate, options = float("inf"), host.progress.rate(60.0), host.options
    if options.steps is not None and rate:
        left = (options.steps - host.progress.trained) / rate
    if options.seconds is not None and host.progress.first_step_at is not None:
        passed = time.monotonic() - host.progress.first_step_at
        left = min(left, speed * (options.seconds - passed))
    return max(0.0, left)


def seats_of(plan: Plan) -> dict[str, int]:
    """Environments in the hands of each simulate worker."""
    found = {}
    for index, replica in enumerate(plan.of_kind("simulate")[0].replicas):
        first, last = replica.environments or (0, 0)
        found[f"simulate {index}"] = last - first
    return found


def rows_of(host: Host, plan: Plan) -> list[Rows]:
    """Where the clocks of the plan's replicas are. Ranks of a learner have rows of their own, also
    where one process plays them all."""
    found = []
    posts = {(post.boot.role, post.boot.index) for post in host.supervisor.posts}
    for role in ROLES:
        for stage in plan.of_kind(role):
            rows = tuple(
                Row(
                    host.room.row(role, each.index),
                    each.index,
                    each.share,
                    max(1, -(-each.share // max(1, each.batch))),
                )
                for each in stage.replicas
                if (role, each.index) in posts or (each.share and (role, 0) in posts)
            )
            if rows:
                found.append(Rows(stage=stage.name, kind=role, rows=rows))
    return found
