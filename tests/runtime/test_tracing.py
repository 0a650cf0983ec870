"""A run leaves a timeline that Perfetto opens: what it did, below what was predicted."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from ebrl.planner.foresight import beside
from ebrl.planner.foresight.beside import predicted
from ebrl.planner.plan import encode
from tests.runtime.emulated_plans import workload
from tests.runtime.support import GRAPHS, plan_of
from tests.runtime.test_faults import lines, updates, victim
from tests.runtime.test_run import start, wait_for, write

Events = list[dict[str, Any]]


def valid(path: Path) -> Events:
    """The events of a file that keeps Chrome's rules; spans of one thread do not overlap."""
    events: Events = json.loads(path.read_text())["traceEvents"]
    names = {
        kind: {(e["pid"], e["tid"]) for e in events if e["name"] == kind}
        for kind in ("process_name", "thread_name")
    }
    spans = defaultdict(list)
    for event in events:
        assert event["ph"] in ("M", "X", "C", "i")  # complete events: no B that lacks its E
        assert (event["pid"], 0) in names["process_name"]
        if event["ph"] == "M":
            continue
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in names["thread_name"]
            spans[event["pid"], event["tid"]].append(event)
        elif event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
    for row in spans.values():
        row.sort(key=lambda e: e["ts"])
        for one, other in itertools.pairwise(row):
            assert round((one["ts"] + one["dur"]) * 1000) <= round(other["ts"] * 1000)
    return events


def tracks(events: Events) -> dict[tuple[str, str], Events]:
    """(process, thread) → its spans."""
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"
    }
    found = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            found[processes[e["pid"]], threads[e["pid"], e["tid"]]].append(e)
    return found


def test_a_run_whose_worker_was_killed_leaves_a_valid_trace_with_the_fault_in_it(tmp_path: Path):
    """Until it is interrupted, some time after that."""
    logdir, trace = tmp_path / "run", tmp_path / "trace.json"
    plan = write(plan_of(GRAPHS / "cartpole.py"), tmp_path)
    process = start(plan, logdir, "--trace", str(trace))
    updates(logdir, 2)
    found = victim(process.pid, "simulate 1")
    assert found is not None
    found.kill()
    wait_for(lambda: any(e["event"] == "recovered" for e in lines(logdir / "events.jsonl")))
    updates(logdir, len(lines(logdir / "progress.jsonl")) + 3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=90)
    assert process.returncode == 128 + signal.SIGINT, err
    told = json.loads(out)
    assert told["trace"] == str(trace)
    events = valid(trace)
    spans = tracks(events)
    for name in ("simulate 0", "simulate 1", "generate 0", "train 0"):
        assert spans["measured: local", name]
    trained = spans["measured: local", "train 0"]
    assert len(trained) == told["updates"] == len(lines(logdir / "progress.jsonl"))
    assert [e["args"]["version"] for e in trained] == list(range(1, len(trained) + 1))
    stepped = sum(
        e["args"]["items"] for n in "01" for e in spans["measured: local", f"simulate {n}"]
    )
    produced = told["ledger"]["produced"]
    assert 0.3 * produced < stepped <= produced  # firings begin when all environments are built
    marks = {e["name"]: e for e in events if e["ph"] == "i"}
    assert marks["fault"]["args"]["worker"] == "simulate 1"
    assert marks["fault"]["ts"] < marks["recovered"]["ts"]
    assert any(e["name"] == "staleness" for e in events)
    assert not (logdir / "trace").exists()  # what it was made of


def emulate(tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    plan = tmp_path / "plan.json"
    plan.write_bytes(encode(workload("pi05_libero")))
    return subprocess.run(
        [sys.executable, "-m", "ebrl.cli.main", "execute", str(plan), "--emulate",
         "--payload-scale", "0.001", "--speed", "40", "--logdir", str(tmp_path / "run"), *more],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_an_emulation_shows_the_prediction_above_what_was_measured(tmp_path: Path):
    trace = tmp_path / "trace.json"
    ended = emulate(tmp_path, "--steps", "20480", "--trace", str(trace))
    assert ended.returncode == 0, ended.stderr
    spans = tracks(valid(trace))
    lanes: dict[str, dict[str, Events]] = defaultdict(dict)
    for (process, thread), row in spans.items():
        lane, _, node = process.partition(": ")
        lanes[lane][f"{node}/{thread}"] = row
    assert set(lanes) == {"predicted", "measured"}
    # One process plays all ranks of a learner; else both have the same tracks.
    ranks = {name for name in lanes["predicted"] if "/train " in name and name[-2:] != " 0"}
    assert set(lanes["predicted"]) - ranks == set(lanes["measured"])
    ends = {
        lane: max(e["ts"] + e["dur"] for row in rows.values() for e in row)
        for lane, rows in lanes.items()
    }
    assert ends["predicted"] == pytest.approx(ends["measured"], rel=0.2)
    foreseen, done = (
        [e["dur"] for e in lanes[lane]["a100x8-0/train 0"] if e["name"] == "train"]
        for lane in ("predicted", "measured")
    )
    assert done[0] == pytest.approx(foreseen[0], rel=0.2)


def test_a_place_that_cannot_be_written_ends_it_before_it_starts(tmp_path: Path):
    done = emulate(tmp_path, "--trace", str(tmp_path / "no" / "trace.json"))
    assert done.returncode == 1
    assert "cannot write the trace" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_stretch_of_a_run_is_predicted_where_it_lies():
    plan = workload("pi05_libero")
    whole, later = predicted(plan, 0.0, 50.0), predicted(plan, 1000.0, 1050.0)
    assert min(e[4] for e in whole.events) == 0.0
    assert max(e[4] + e[5] for e in whole.events) <= 50.0
    assert all(1000.0 - e[5] <= e[4] <= 1050.0 for e in later.events)
    assert predicted(plan, 5.0, 5.0).events == []


def test_of_a_long_run_as_much_is_predicted_as_one_may_look_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(beside, "MOST_EVENTS", 5_000)
    monkeypatch.setattr(beside, "SAMPLE", 500)
    assert 2_500 < len(predicted(workload("pi05_libero"), 0.0, 1e9).events) < 10_000
