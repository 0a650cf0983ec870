"""What a reader of a plan is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ebrl.errors import InfeasibleError, PlanError
from ebrl.planner.cluster import parse
from ebrl.planner.compile import compile
from ebrl.planner.model.request import CompileOptions, parse_pin
from ebrl.planner.plan import Plan, encode, read
from ebrl.planner.proof.verify import verify
from ebrl.planner.telling.diff import diff
from ebrl.planner.telling.explain import explain, uses
from ebrl.planner.telling.whatif import Change, what_if
from tests.planner.model import cases

ROOT = Path(__file__).resolve().parents[3]
QUICK = CompileOptions(alternatives=False)


def plan(**options: object) -> Plan:
    return compile(
        cases.pipeline(envs=(8, 64)),
        cases.cpus(cores=8),
        cases.on_cores(),
        options=msgspec.structs.replace(QUICK, **options),
    )


def test_one_more_core_is_worth_what_planning_with_it_gives():
    before = plan()
    told = explain(before)
    gains = {each.name: each.gain for each in told.marginal}
    after = compile(
        cases.pipeline(envs=(8, 64)), cases.cpus(cores=9), cases.on_cores(), options=QUICK
    )
    expected = (
        after.prediction.throughput_env_steps_per_s - before.prediction.throughput_env_steps_per_s
    )
    assert gains["core"] == pytest.approx(expected, rel=1e-4)
    assert gains["core"] > 0
    assert min(gains.values()) >= 0


def test_full_cores_are_told_as_full():
    shares = {use.name: use.share for use in uses(plan())}
    assert shares["cores"] == pytest.approx(1.0, abs=1e-3)
    assert shares["in flight"] <= 1


def test_equal_plans_do_not_differ():
    assert diff(plan(), plan()) == ()


def test_a_pin_shows_as_an_addition_and_its_effect_as_changes():
    found = diff(plan(), plan(pins=(parse_pin("simulate.replicas=2"),)))
    texts = [str(each) for each in found]
    assert "+ pin simulate.replicas: 2" in texts
    assert any(text.startswith("~ simulate.replicas: ") for text in texts)
    assert any(text.startswith("~ prediction.throughput_env_steps_per_s") for text in texts)


def test_what_if_changes_only_what_is_asked():
    before = plan()
    after = what_if(before, Change(cores=8))
    assert verify(after) == ()
    assert after.program == before.program
    assert after.profile == before.profile
    assert after.cluster.nodes[0].cores == 16


def test_what_if_without_devices_says_so():
    with pytest.raises(PlanError) as caught:
        what_if(plan(), Change(gpus=1))
    assert caught.value.code == "what-if-no-device"


def test_a_stage_that_fits_nowhere_is_told_with_its_arithmetic():
    program = cases.pipeline(runs_on={"generate": ("gpu",)})
    points = (
        *(p for p in cases.on_cores() if p.stage != "generate"),
        cases.point("generate", 1, 0.01, device="t4", sms=40, size=92 * cases.GB),
    )
    with pytest.raises(InfeasibleError) as caught:
        compile(program, parse("t4x2"), points)
    error = caught.value
    assert error.code == "too-large"
    assert error.exit_code == 3
    assert "generate needs 92.5 GB of device memory (one t4 has 16.1 GB)" in str(error)
    assert "128 GB more memory on each GPU" in error.diagnostics[0].hint


def test_a_gpu_stage_on_cores_alone_is_refused_in_words():
    with pytest.raises(InfeasibleError) as caught:
        compile(cases.pipeline(runs_on={"train": ("gpu",)}), cases.cpus(), cases.on_cores())
    assert caught.value.code == "no-device"


def test_too_much_is_refused_with_the_bound_and_the_smallest_ways_on():
    options = CompileOptions(objective="devices", at_least=1e4)
    program = cases.pipeline(envs=(8, 512))
    with pytest.raises(InfeasibleError) as caught:
        compile(program, cases.cpus(cores=8), cases.on_cores(), options=options)
    assert "nothing can exceed" in str(caught.value)
    assert "times the nodes" in caught.value.diagnostics[0].hint


def test_conflicting_pins_are_named():
    pins = tuple(map(parse_pin, ("simulate.replicas=12", "simulate.environments=8")))
    with pytest.raises(InfeasibleError) as caught:
        plan(pins=pins)
    hint = caught.value.diagnostics[0].hint
    assert "no pin on simulate.replicas" in hint
    assert "no pin on simulate.environments" in hint


def test_cost_needs_prices():
    with pytest.raises(PlanError) as caught:
        plan(objective="cost", at_least=100.0)
    assert caught.value.code == "price-missing"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "ebrl.cli.main", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_line_plans_explains_varies_and_compares(tmp_path):
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    done = run("plan", "graphs/pi05_libero.py", "--cluster", "a100x2", "-o", str(first), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    keys = {"throughput_env_steps_per_s", "bound_env_steps_per_s", "gap", "solve_s", "total_s"}
    assert keys | {"bottleneck", "stages", "plan"} <= set(told)
    assert told["gap"] <= 1e-3
    assert {each["name"] for each in told["alternatives"]} >= {"collocated", "even split"}
    reason = json.loads(run("explain", str(first), "--no-marginal", "--json").stdout)
    assert reason["bottleneck"] == told["bottleneck"]
    varied = run("whatif", str(first), "--gpus", "+1", "-o", str(second), "--json")
    after = json.loads(varied.stdout)
    assert (
        after["after"]["throughput_env_steps_per_s"] > after["before"]["throughput_env_steps_per_s"]
    )
    assert run("diff", str(first), str(first)).returncode == 0
    differs = run("diff", str(first), str(second), "--json")
    assert differs.returncode == 4
    assert json.loads(differs.stdout)["changes"]


def test_a_plan_that_does_not_fit_exits_with_3(tmp_path):
    done = run(
        "plan", "graphs/pi05_libero.py", "--cluster", "cpu64", "-o", str(tmp_path / "x.json")
    )
    assert done.returncode == 3
    assert "no-device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_plan_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    path.write_bytes(encode(plan())[:500])
    for command in ("explain", "whatif"):
        extra = ["--cores", "+1"] if command == "whatif" else []
        done = run(command, str(path), *extra)
        assert done.returncode == 1
        assert "plan-malformed" in done.stderr


def test_a_graph_in_a_plan_s_place_is_called_one(tmp_path):
    path = tmp_path / "graph.py"
    path.write_text("import ebrl\n")
    done = run("explain", str(path))
    assert done.returncode == 1
    assert "this is a graph, not a plan" in done.stderr
    assert f"ebrl plan {path}" in done.stderr


def test_a_plan_is_the_same_after_a_file_even_where_whole_numbers_stood_for_floats(tmp_path):
    (node,) = cases.cpus().nodes
    node = msgspec.structs.replace(node, price_per_hour=3, network_bytes_per_s=10**9)
    points = tuple(msgspec.structs.replace(p, cores=1, p95_s=1) for p in cases.on_cores())
    made = compile(
        cases.pipeline(),
        msgspec.structs.replace(cases.cpus(), nodes=(node,)),
        points,
        options=CompileOptions(objective="cost", at_least=100, pins=(parse_pin("train.batch=64"),)),
    )
    path = tmp_path / "plan.json"
    path.write_bytes(encode(made))
    again = read(path)
    assert again.digest() == made.digest()
    assert encode(again) == encode(made)
    assert verify(again) == ()
