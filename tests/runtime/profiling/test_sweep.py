"""A thorough profiling of a small graph, for real: interrupted, resumed, planned with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ebrl.cli.main import run
from ebrl.planner import profile
from ebrl.runtime.profiling.journal import Entry, Journal
from ebrl.runtime.profiling.sweep import Sweep
from tests.runtime.support import GRAPHS

GRAPH = str(GRAPHS / "cartpole.py")


def entry(**changes: object) -> Entry:
    given = {"company": ("act",), "stage": "act", "sms": 0, "cores": 1, "batch": 2}
    return Entry(**(given | {"seconds": (0.5, 0.6)} | changes))  # type: ignore[arg-type]


def test_a_profiling_that_was_interrupted_goes_on_and_the_plan_uses_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    output = tmp_path / "profile.json"
    arguments = ["profile", GRAPH, "-o", str(output), "--budget", "4s", "--precision", "0.3"]
    measure = Sweep._companies

    def interrupt(self: Sweep, end: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Sweep, "_companies", interrupt)
    assert run(arguments) == 130
    kept = len(output.with_name("profile.json.slices").read_bytes().splitlines())
    assert kept > 1
    assert not output.exists()
    monkeypatch.setattr(Sweep, "_companies", measure)
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["resumed_slices"] >= kept - 1
    assert told["points"]
    assert all(p["source"] == "measured" for p in told["points"])
    assert all(p["low_s"] <= p["median_s"] <= p["high_s"] for p in told["points"] if "low_s" in p)
    names = {name for each in told["together"] for name in each["stages"]}
    assert names <= {"simulate", "generate", "train"}
    assert all(0.2 < f < 5 for each in told["together"] for f in each["factors"].values())
    assert not output.with_name("profile.json.slices").exists()
    assert Path(told["picture"]).read_bytes().startswith(b"\x89PNG")
    written = profile.read(output)
    assert len(written.points) == len(told["points"])
    plan = tmp_path / "plan.json"
    assert run(["plan", GRAPH, "--profile", str(output), "-o", str(plan), "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["throughput_env_steps_per_s"] == pytest.approx(
        told["predicted_env_steps_per_s"], rel=0.02
    )
    assert {stage["source"] for stage in planned["stages"]} == {"measured"}


def test_a_cluster_that_is_not_here_is_refused_with_the_way_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    output = tmp_path / "p.json"
    assert run(["profile", GRAPH, "--cluster", "a100x8", "-o", str(output)]) == 1
    assert "run `ebrl profile GRAPH --cluster local` on a node of it" in capsys.readouterr().err
    assert run(["profile", GRAPH, "--budget", "soon", "-o", str(output)]) == 2


def test_slices_of_another_program_or_a_line_cut_short_are_not_read(tmp_path: Path):
    path = tmp_path / "slices"
    journal = Journal(path, "one")
    journal.add(entry())
    journal.add(entry(batch=4))
    journal.close(done=False)
    path.write_bytes(path.read_bytes()[:-9])
    assert [each.batch for each in Journal(path, "one").found] == [2]
    assert Journal(path, "another").found == []
    assert Journal(path, "one").found == []  # the file is about another program now
