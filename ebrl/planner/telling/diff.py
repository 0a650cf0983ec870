"""What differs between two plans, with Terraform's signs: + added, - removed, ~ changed.

Invariant: two plans without a difference here do the same work on the same hardware; dates, solve
times and paths do not count.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from ebrl.planner.plan import Plan, StagePlan

CLOSE = 1e-6


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    sign: Literal["+", "-", "~"]
    path: str
    before: str | float | int | None = None
    after: str | float | int | None = None

    def __str__(self) -> str:
        if self.sign == "+":
            return f"+ {self.path}: {_text(self.after)}"
        if self.sign == "-":
            return f"- {self.path}: {_text(self.before)}"
        return f"~ {self.path}: {_text(self.before)} → {_text(self.after)}"


def diff(before: Plan, after: Plan) -> tuple[Difference, ...]:
    """Inputs first, then decisions, then what is predicted."""
    found: list[Difference] = []
    for path, old, new in (
        ("graph", before.program_sha256[:12], after.program_sha256[:12]),
        ("cluster", before.cluster.text, after.cluster.text),
        ("cluster digest", before.cluster_sha256[:12], after.cluster_sha256[:12]),
        ("profile", before.profile_sha256[:12], after.profile_sha256[:12]),
        ("objective", before.objective, after.objective),
        ("at least", before.at_least, after.at_least),
        ("schedule", before.schedule, after.schedule),
        ("max_staleness", before.max_staleness, after.max_staleness),
        ("environments", before.environments.count, after.environments.count),
        ("groups", before.environments.groups, after.environments.groups),
        ("buffers.segments", before.buffers.segments, after.buffers.segments),
        ("buffers.slab_bytes", before.buffers.slab_bytes, after.buffers.slab_bytes),
    ):
        _compare(found, path, old, new)
    _pins(found, before, after)
    old_stages = {stage.name: stage for stage in before.stages}
    new_stages = {stage.name: stage for stage in after.stages}
    for name in dict.fromkeys((*old_stages, *new_stages)):
        _stage(found, name, old_stages.get(name), new_stages.get(name))
    said, now = before.prediction, after.prediction
    _compare(
        found,
        "prediction.throughput_env_steps_per_s",
        said.throughput_env_steps_per_s,
        now.throughput_env_steps_per_s,
    )
    _compare(found, "prediction.bottleneck", said.bottleneck, now.bottleneck)
    return tuple(found)


def _pins(found: list[Difference], before: Plan, after: Plan) -> None:
    old = {f"pin {pin.stage}.{pin.key}": pin.value for pin in before.pins}
    new = {f"pin {pin.stage}.{pin.key}": pin.value for pin in after.pins}
    for path in dict.fromkeys((*old, *new)):
        _compare(found, path, old.get(path), new.get(path))


def _stage(
    found: list[Difference], name: str, old: StagePlan | None, new: StagePlan | None
) -> None:
    if old is None or new is None:
        stage = old or new
        assert stage is not None
        text = f"{len(stage.replicas)} replicas, batch {stage.batch}"
        if old is None:
            found.append(Difference(sign="+", path=name, after=text))
        else:
            found.append(Difference(sign="-", path=name, before=text))
        return
    _compare(found, f"{name}.replicas", len(old.replicas), len(new.replicas))
    _compare(found, f"{name}.batch", old.batch, new.batch)
    _compare(found, f"{name}.sms", old.sms, new.sms)
    _compare(found, f"{name}.cores", old.cores, new.cores)
    _compare(found, f"{name}.seconds", old.seconds, new.seconds)
    _compare(found, f"{name}.source", old.source, new.source)
    places = [
        Counter((r.node, r.device, r.sm_start, r.sms, r.batch, r.environments) for r in s.replicas)
        for s in (old, new)
    ]
    moved = sum((places[1] - places[0]).values())
    if moved and len(old.replicas) == len(new.replicas):
        found.append(
            Difference(
                sign="~",
                path=f"{name}.placement",
                before=f"{len(old.replicas)} replicas",
                after=f"{moved} of them elsewhere or with other shares",
            )
        )


def _compare(
    found: list[Difference],
    path: str,
    old: str | float | int | None,
    new: str | float | int | None,
) -> None:
    if (old is None and new is None) or old == new:
        return
    if old is None:
        found.append(Difference(sign="+", path=path, after=new))
    elif new is None:
        found.append(Difference(sign="-", path=path, before=old))
    elif isinstance(old, float) and isinstance(new, float):
        if abs(old - new) > CLOSE * max(abs(old), abs(new)):
            found.append(Difference(sign="~", path=path, before=old, after=new))
    else:
        found.append(Difference(sign="~", path=path, before=old, after=new))


def _text(value: str | float | int | None) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
