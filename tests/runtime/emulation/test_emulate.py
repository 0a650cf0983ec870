"""The real runtime plays a plan for hardware that is not here, as the simulation foresees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.plan import encode
from tests.runtime.emulated_plans import workload


def ebrl(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "ebrl.cli.main", *arguments, "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


def emulate(tmp_path: Path, name: str, *more: str) -> dict[str, Any]:
    plan = tmp_path / "plan.json"
    plan.write_bytes(encode(workload(name)))
    code, told = ebrl(
        "execute", str(plan), "--emulate", "--payload-scale", "0.001",
        "--logdir", str(tmp_path / "run"), *more,
    )  # fmt: skip
    assert code == 0, told
    return told


def test_eight_gpus_are_played_on_this_machine(tmp_path):
    told = emulate(tmp_path, "pi05_libero", "--speed", "40", "--steps", "81920")
    plan = workload("pi05_libero")
    assert told["ledger"]["trained"] == told["env_steps"] >= 81920
    assert told["staleness"]["max"] <= plan.max_staleness
    foreseen = simulate(plan, Conditions())[0].throughput_env_steps_per_s
    assert told["steady_env_steps_per_s"] == pytest.approx(foreseen, rel=0.25)


def test_a_crash_that_was_asked_for_is_survived(tmp_path):
    told = emulate(
        tmp_path, "pi05_libero", "--speed", "40", "--steps", "20480",
        "--inject", "crash:simulate/0@20s",
    )  # fmt: skip
    assert told["restarts"] >= 1
    assert told["ledger"]["discarded"]["worker-lost"] >= 0


def test_without_emulation_it_is_refused_with_the_way_on(tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_bytes(encode(workload("pi05_libero")))
    code, told = ebrl("execute", str(plan), "--logdir", str(tmp_path / "run"))
    assert code == 1
    assert any("--emulate" in each["hint"] for each in told["diagnostics"])
