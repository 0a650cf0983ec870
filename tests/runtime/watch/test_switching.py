"""Going from one plan to another while a run trains: nothing is lost, whatever changes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from ebrl.planner.plan import Plan, encode
from tests.runtime.support import GRAPHS, plan_of

GRAPH = GRAPHS / "cartpole.py"


def switched(tmp_path: Path, *plans: Plan) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    paths = []
    for index, plan in enumerate(plans):
        path = tmp_path / f"{index}.json"
        path.write_bytes(encode(plan))
        paths.append(str(path))
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.watch.switching", str(tmp_path / "run"), *paths],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer["told"], answer["summary"]


def fewer(plan: Plan, *, batch: int, environments: int) -> Plan:
    """The same workers, smaller batches, fewer environments at work."""
    changed: dict[str, dict[str, Any]] = {
        "simulate": {"environments": (0, environments)},
        "generate": {"batch": batch, "environments": (0, environments)},
        "train": {},
    }
    stages = tuple(
        msgspec.structs.replace(
            stage,
            replicas=tuple(
                msgspec.structs.replace(r, **changed[stage.kind]) for r in stage.replicas
            ),
        )
        for stage in plan.stages
    )
    return msgspec.structs.replace(
        plan,
        stages=stages,
        environments=msgspec.structs.replace(plan.environments, count=environments),
    )


def test_workers_are_spawned_and_retired_and_settings_changed_while_the_ledger_balances(
    tmp_path: Path,
):
    one = plan_of(GRAPH, simulators=1)
    two = plan_of(GRAPH, simulators=2)
    small = fewer(one, batch=2, environments=4)
    told, summary = switched(tmp_path, one, two, one, small)
    assert [each["workers"] for each in told] == [
        ["generate 0", "simulate 0", "train 0"],
        ["generate 0", "simulate 0", "simulate 1", "train 0"],
        ["generate 0", "simulate 0", "train 0"],
        ["generate 0", "simulate 0", "train 0"],
    ]
    assert "drain and respawn (2 × simulate for 1)" in told[0]["switch"]
    assert "respawn" not in told[2]["switch"]
    assert "generate 0: batch 2" in told[2]["switch"]
    trained = [each["trained"] for each in told]
    assert all(before < after for before, after in itertools.pairwise(trained))
    assert all(count > 0 for count in told[1]["items"].values())  # the new worker works, too
    ledger = summary["ledger"]
    discarded = sum(ledger["discarded"].values())
    assert ledger["produced"] == ledger["trained"] + discarded + ledger["in_flight"]
    assert ledger["discarded"]["worker-lost"] == 0
    assert discarded <= 8 * one.buffers.horizon  # a segment an environment, at worst
    assert summary["replans"] == 3
    assert summary["restarts"] == 0

    windows = (tmp_path / "run" / "stages.jsonl").read_text().splitlines()
    last = json.loads(windows[-1])["stages"]
    assert last["generate"]["batch"] <= 2.0  # nobody's batch is larger than he was told
    assert last["simulate"]["batch"] <= 4.0  # and four environments rest
