"""Something changes in an emulated run: it notices, asks the planner, and takes its answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ebrl.planner.plan import Plan, read, write
from tests.runtime.emulated_plans import eight

CHANGE_S = 16.0
LONGEST_S = 60.0  # real; it takes about fifteen


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text().rpartition("\n")[0] if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of eight GPUs slows down; the run is interrupted some time after it has switched."""
    folder = tmp_path_factory.mktemp("emulated")
    write(eight(), folder / "plan.json")
    run = folder / "run"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ebrl.cli.main", "execute", str(folder / "plan.json")),
            *("--emulate", "--speed", "4", "--payload-scale", "0.0005", "--steps", str(10**9)),
            *("--inject", f"gpu3*3@{CHANGE_S:g}s", "--logdir", str(run), "--json"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ,
    )
    try:
        began, switched = time.monotonic(), None
        while process.poll() is None and time.monotonic() - began < LONGEST_S:
            time.sleep(0.2)
            if switched is None and any(
                e["event"] == "switched" for e in lines(run / "events.jsonl")
            ):
                switched = time.monotonic()
            if switched is not None and time.monotonic() - switched > 3.0:
                break
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130, told.decode()
    return run


def test_the_slow_device_is_named_and_planned_around(run):
    decision = next(each for each in lines(run / "decisions.jsonl") if each["applied"])
    assert decision["at_s"] > CHANGE_S
    assert "on GPU a100x8-0/3" in decision["drifted"]
    assert decision["slow"]["a100x8-0/3"] == pytest.approx(3.0, rel=0.2)
    rates = {each["name"]: each["env_steps_per_s"] for each in decision["considered"]}
    assert rates["anew"] > 1.05 * rates["stay"]
    work = busy(read(run / decision["plan"]))
    assert work.get(3, 0.0) <= min(work[n] for n in range(8) if n != 3)


def busy(plan: Plan) -> dict[int, float]:
    """By device, how much of the loop and of each update is there."""
    found: dict[int, float] = dict.fromkeys(range(8), 0.0)
    del found[3]
    for stage in plan.stages:
        for replica in stage.replicas:
            if replica.device is not None:
                part = replica.share / 768 if replica.share else replica.busy
                found[replica.device] = found.get(replica.device, 0.0) + part
    return found


def test_the_run_goes_on_by_the_new_plan_and_nothing_is_lost(run):
    summary = json.loads((run / "summary.json").read_text())
    ledger = summary["ledger"]
    lost = sum(ledger["discarded"].values())
    assert ledger["produced"] == ledger["trained"] + lost + ledger["in_flight"]
    assert ledger["discarded"]["worker-lost"] == 0
    assert summary["restarts"] == 0
    assert summary["replans"] >= 1
    events = lines(run / "events.jsonl")
    switched = next(event["at_s"] for event in events if event["event"] == "switched")
    windows = [each for each in lines(run / "stages.jsonl") if each["at_s"] > switched]
    assert sum(window["trained"] for window in windows) > 0
