"""`ebrl simulate` and `ebrl compare`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ebrl.cli.main import run
from ebrl.planner.plan import encode
from tests.planner.foresight.pipelines import random_plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("foresight") / "plan.json"
    path.write_bytes(encode(random_plan(41)))
    return str(path)


def test_simulate_prints_its_contract_as_json(plan, tmp_path: Path, capsys):
    trace = tmp_path / "trace.json"
    assert run(["simulate", plan, "--seconds", "12", "--trace", str(trace), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["throughput_env_steps_per_s"] > 0
    assert told["error_vs_plan"] == pytest.approx(
        told["throughput_env_steps_per_s"] / told["predicted_env_steps_per_s"] - 1
    )
    assert {"name", "busy", "queue"} <= set(told["stages"][0])
    assert told["trace"] == str(trace)
    assert json.loads(trace.read_text())["traceEvents"]


def test_simulate_says_why_and_what_happened(plan, capsys):
    assert run(["simulate", plan, "--seconds", "12", "--spread", "0.3"]) == 0
    told = capsys.readouterr().out
    for word in ("simulated", "predicted", "variance", "staleness", "ledger", "learner"):
        assert word in told


def test_too_short_a_simulation_says_so(plan, capsys):
    assert run(["simulate", plan, "--seconds", "0.001"]) == 0
    assert "simulate longer" in capsys.readouterr().out


def test_a_trace_that_cannot_be_written_is_one_message(plan, tmp_path: Path, capsys):
    where = str(tmp_path / "no" / "trace.json")
    assert run(["simulate", plan, "--seconds", "1", "--no-why", "--trace", where]) == 1
    assert "cannot write the trace" in capsys.readouterr().err


def test_compare_refuses_names_and_formats_before_it_works(capsys):
    graph = ["compare", "graphs/pi05_libero.py", "--cluster", "a100x8"]
    assert run([*graph, "--only", "theirs"]) == 1
    assert "async-shards" in capsys.readouterr().err
    assert run([*graph, "--picture", "bars.txt"]) == 1
    assert "end it with .svg" in capsys.readouterr().err


def test_compare_prints_its_contract_as_json(tmp_path: Path, capsys):
    graph = Path(__file__).resolve().parents[2] / "graphs" / "openvla_oft_maniskill.py"
    picture = tmp_path / "bars.svg"
    code = run(
        ["compare", str(graph), "--cluster", "a100x4", "--only", "disaggregated",
         "--picture", str(picture), "--json"]
    )  # fmt: skip
    assert code == 0
    told = json.loads(capsys.readouterr().out)
    keys = {
        "strategy", "throughput_env_steps_per_s", "speedup", "gpu_busy", "core_busy", "staleness",
    }  # fmt: skip
    assert [row["strategy"] for row in told["rows"]] == ["disaggregated", "bound"]
    assert keys <= set(told["rows"][0])
    assert picture.stat().st_size > 1000
