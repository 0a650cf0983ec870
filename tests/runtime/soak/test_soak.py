"""A real run under faults of every kind goes on, accounts for every step, and leaves nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.graphs import faults
from benchmarks.soak import GRAPH, Soak, account
from tests.runtime.support import plan_of

FAULTS = (
    ("kill", "simulate"),
    ("stop", "generate"),
    ("raise", "step"),
    ("kill", "train"),
    ("nan", "step"),
    ("exit", "step"),
    ("kill", "nursery"),
    ("shape", "step"),
    ("raise", "reset"),
    ("leave", "policy"),
    ("hang", "learner"),
    ("raise", "learner"),
    ("nan", "policy"),
    ("nan", "learner"),
)


@pytest.fixture
def soak(tmp_path: Path):
    one = Soak(plan_of(GRAPH), tmp_path, seed=1)
    yield one
    if one.process.poll() is None:
        one.process.kill()
        one.process.wait()


def test_a_run_survives_faults_of_every_kind_and_accounts_for_every_step(soak: Soak) -> None:
    soak.wait_until_it_trains(3)
    for kind, where in FAULTS:
        before = soak.recoveries()
        assert soak.harm(kind, where), (kind, where)
        if where != "nursery":
            assert soak.until(lambda before=before: soak.recoveries() > before, 40.0), (kind, where)
    soak.wait_until_it_trains(3)
    told = soak.end()
    assert told["exit_code"] == 143
    found = account(told, max_staleness=1)
    assert found["balance"] == 0
    assert found["within_staleness"]
    assert found["discarded"]["worker-lost"] > 0
    assert found["discarded"]["environment-failed"] > 0
    assert told["restarts"] >= 8
    assert told["rebuilds"] >= 4
    assert told["skipped_updates"] == 1
    assert found["discarded"]["diverged"] > 400  # steps of a batch of 512 rows
    assert soak.orphans() == []
    assert soak.left_in_shm() == set()
    events = soak.events()
    assert {"fault", "recovered", "reclaimed", "environment-failed"} <= {
        each["event"] for each in events
    }
    assert "a fault was asked for" in told["stderr"]  # faults are told as they happen


def test_a_run_goes_on_while_several_posts_are_empty_at_once(soak: Soak) -> None:
    soak.wait_until_it_trains(3)
    for _ in range(3):
        for role in ("simulate", "generate", "train"):
            soak.harm("kill", role)
    soak.wait_until_it_trains(5)
    told = soak.end()
    assert account(told, max_staleness=1)["balance"] == 0
    assert soak.orphans() == []


def test_a_worker_that_is_stopped_or_hangs_while_it_starts_is_replaced_too(soak: Soak) -> None:
    soak.wait_until_it_trains(3)
    for kind, where in (("kill", "simulate"), ("stop", "simulate")):  # the next one, at once
        faults.ask(soak.folder / "faults.bin", "reset", "hang")
        soak.harm(kind, where)
        assert soak.until(lambda: not faults.pending(soak.folder / "faults.bin", "reset"), 20.0)
    soak.wait_until_it_trains(3, timeout_s=40.0)
    assert account(soak.end(), max_staleness=1)["balance"] == 0
