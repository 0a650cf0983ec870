"""A trace file is what Perfetto reads, and lanes can be put into one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.errors import RunError
from ebrl.trace import Trace, check, merge, rows, shifted


def sample(offset: float = 0.0) -> Trace:
    trace = Trace()
    trace.span("node-0", "generate 10", "generate", offset + 0.5, 0.25, {"items": 8})
    trace.span("node-0", "generate 2", "generate", offset + 0.25, 0.25)
    trace.counter("cluster", "staleness", offset + 0.5, {"versions": 0.75})
    trace.mark("cluster", "", "version", offset + 1.0, {"version": 3})
    return trace


def written(trace: Trace, path: Path) -> list[dict[str, Any]]:
    trace.write(path)
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def test_spans_counters_and_marks_are_chromes(tmp_path: Path):
    events = written(sample(), tmp_path / "t.json")
    spans = [event for event in events if event["ph"] == "X"]
    assert [(each["ts"], each["dur"]) for each in spans] == [(500000.0, 250000.0), (250000.0,) * 2]
    assert [each["args"] for each in events if each["ph"] == "C"] == [{"versions": 0.75}]
    assert [each["s"] for each in events if each["ph"] == "i"] == ["p"]
    assert all({"ph", "pid", "tid", "name"} <= set(each) for each in events)


def test_processes_and_threads_have_their_names_in_natural_order(tmp_path: Path):
    events = written(sample(), tmp_path / "t.json")
    names = {
        (each["pid"], each["tid"]): each["args"]["name"]
        for each in events
        if each["name"] == "thread_name"
    }
    ordered = [names[key] for key in sorted(names)]
    assert ordered == ["generate 2", "generate 10"]
    processes = [each["args"]["name"] for each in events if each["name"] == "process_name"]
    assert processes == ["node-0", "cluster"]


def test_predicted_and_measured_lanes_share_a_file(tmp_path: Path):
    lanes = merge({"predicted": sample(), "measured": shifted(sample(), -0.25)})
    events = written(lanes, tmp_path / "t.json")
    processes = {
        each["args"]["name"]: each["pid"] for each in events if each["name"] == "process_name"
    }
    assert set(processes) == {
        "predicted: node-0", "predicted: cluster", "measured: node-0", "measured: cluster",
    }  # fmt: skip
    first = {
        name: min(e["ts"] for e in events if e["ph"] == "X" and e["pid"] == pid)
        for name, pid in processes.items()
        if name.endswith("node-0")
    }
    assert first == {"predicted: node-0": 250000.0, "measured: node-0": 0.0}


@given(st.lists(st.floats(0.0, 1e4), min_size=1, max_size=50), st.floats(0.0, 1e4))
def test_what_follows_at_once_does_not_overlap(durations: list[float], by_s: float):
    trace, at = Trace(), 0.0
    for duration in durations:
        trace.span("node-0", "train 0", "train", at, duration)
        at += duration
    spans = [row for row in rows(shifted(trace, by_s).events) if row["ph"] == "X"]
    ends = [round((each["ts"] + each["dur"]) * 1000) for each in spans]
    begins = [round(each["ts"] * 1000) for each in spans]
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
    assert all(each["dur"] >= 0 for each in spans)


def test_a_place_that_cannot_be_written_is_refused_before_and_after(tmp_path: Path):
    nowhere = tmp_path / "no" / "trace.json"
    for act in (check, sample().write):
        with pytest.raises(RunError, match="cannot write the trace") as refused:
            act(nowhere)
        assert str(nowhere) in str(refused.value)
