"""What watching reads off a run: whose clock is where, and how long it will still take."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from ebrl.runtime.emulation import setup
from ebrl.runtime.watch.host import left_s, rows_of, seats_of
from tests.runtime.emulated_plans import eight


def host(**more: Any) -> Any:
    return SimpleNamespace(**more)


def test_every_replica_has_a_clock_also_the_ranks_that_one_process_plays():
    plan = eight()
    room = setup.room(plan)
    posts = [
        host(boot=host(role=kind, index=replica.index))
        for kind in ("simulate", "generate", "train")
        for replica in plan.of_kind(kind)[0].replicas[: 1 if kind == "train" else None]
    ]
    found = rows_of(host(room=room, supervisor=host(posts=posts)), plan)
    counts = {rows.kind: len(rows.rows) for rows in found}
    assert counts == {kind: len(plan.of_kind(kind)[0].replicas) for kind in counts}
    rows = [row.row for each in found for row in each.rows]
    assert len(set(rows)) == len(rows)
    ranks = next(each for each in found if each.kind == "train").rows
    assert sum(rank.share for rank in ranks) == sum(
        replica.share for replica in plan.of_kind("train")[0].replicas
    )


def test_environments_are_in_the_hands_of_somebody():
    plan = eight()
    assert sum(seats_of(plan).values()) == plan.environments.count


def test_what_is_left_is_told_in_the_seconds_of_the_plan():
    progress = host(rate=lambda _: 10.0, trained=400, first_step_at=time.monotonic() - 10)
    options = host(steps=1000, seconds=None)
    assert left_s(host(progress=progress, options=options), 5.0) == pytest.approx(60.0)
    options = host(steps=None, seconds=30.0)
    assert left_s(host(progress=progress, options=options), 5.0) == pytest.approx(100.0, rel=0.01)
    options = host(steps=None, seconds=None)
    assert left_s(host(progress=progress, options=options), 5.0) == float("inf")
