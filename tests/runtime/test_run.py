"""Runs of a real pipeline in real processes: what they leave, how they end, what they refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from ebrl.planner.plan import Plan, encode
from ebrl.runtime import checkpoint
from tests.runtime.support import GRAPHS, plan_of

GRAPH = GRAPHS / "cartpole.py"
EBRL = [sys.executable, "-m", "ebrl.cli.main"]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(GRAPH)


def write(plan: Plan, folder: Path) -> Path:
    path = folder / "plan.json"
    path.write_bytes(encode(plan))
    return path


def start(path: Path, logdir: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*EBRL, "execute", str(path), "--logdir", str(logdir), "--json", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(path: Path, logdir: Path, *more: str) -> dict[str, Any]:
    process = start(path, logdir, *more)
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    return json.loads(out)


def wait_for(what: Callable[[], bool], timeout_s: float = 90.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def balanced(told: dict[str, Any]) -> bool:
    ledger = told["ledger"]
    return ledger["produced"] == (
        ledger["trained"] + sum(ledger["discarded"].values()) + ledger["in_flight"]
    )


def workers(parent: int) -> list[psutil.Process]:
    try:
        return psutil.Process(parent).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()).strip()
    except psutil.Error:  # it has just ended
        return ""


def test_a_run_trains_accounts_for_every_step_and_leaves_what_people_look_for(
    plan: Plan, tmp_path: Path
) -> None:
    logdir = tmp_path / "run"
    told = run(write(plan, tmp_path), logdir, "--steps", "4000", "--seed", "1")
    assert told["env_steps"] >= 4000
    assert told["env_steps"] == told["ledger"]["trained"]
    assert balanced(told)
    assert told["staleness"]["max"] <= 1
    assert told["episodes"] > 50
    assert told["ep_rew_mean"] > 15
    assert told["env_steps_per_s"] > 0
    assert told["restarts"] == told["rebuilds"] == 0
    for key in ("predicted_env_steps_per_s", "success_once", "restarts", "replans"):
        assert key in told
    tensors, state = checkpoint.load(Path(told["checkpoint"]))
    assert state.trained == told["env_steps"]
    assert tensors
    lines = (logdir / "progress.jsonl").read_text().splitlines()
    assert len(lines) == told["updates"]
    assert (logdir / "curve.png").stat().st_size > 5000
    assert (logdir / "summary.json").is_file()
    assert _tags(logdir) >= {
        "rollout/ep_rew_mean",
        "rollout/ep_len_mean",
        "time/fps",
        "train/approx_kl",
        "train/clip_fraction",
        "train/explained_variance",
        "staleness/mean",
        "staleness/max",
        "ledger/trained",
        "stage/simulate/busy",
        "plan/measured_env_steps_per_s",
    }


def _tags(folder: Path) -> set[str]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return set(accumulator.Tags()["scalars"])


def test_without_staleness_two_runs_with_one_seed_give_the_same_weights(tmp_path: Path) -> None:
    path = write(plan_of(GRAPH, max_staleness=0), tmp_path)
    same = [
        run(path, tmp_path / name, "--steps", "1500", "--seed", seed)
        for name, seed in (("a", "3"), ("b", "3"))
    ]
    first, again = (told["weights_sha256"] for told in same)
    assert first == again
    assert first is not None
    assert all(told["staleness"]["max"] == 0 for told in same)


@pytest.mark.parametrize(("simulators", "generators"), [(3, 1), (2, 3)])
def test_any_ratio_of_simulate_to_generate_workers_runs(
    simulators: int, generators: int, tmp_path: Path
) -> None:
    path = write(plan_of(GRAPH, simulators=simulators, generators=generators), tmp_path)
    told = run(path, tmp_path / "run", "--steps", "1500")
    assert told["env_steps"] >= 1500
    assert balanced(told)


def _starting(logdir: Path, pid: int) -> bool:
    return len(workers(pid)) >= 4


def _rolling_out(logdir: Path, pid: int) -> bool:
    return (logdir / "progress.jsonl").exists() and (
        (logdir / "progress.jsonl").read_bytes().count(b"\n") >= 2
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("phase", [_starting, _rolling_out])
def test_a_signal_ends_the_run_within_five_seconds_with_a_checkpoint_and_nothing_left(
    plan: Plan, tmp_path: Path, number: signal.Signals, phase: Callable[[Path, int], bool]
) -> None:
    logdir = tmp_path / "run"
    shared = set(os.listdir("/dev/shm"))
    process = start(write(plan, tmp_path), logdir)
    wait_for(lambda: phase(logdir, process.pid))
    below = workers(process.pid)
    process.send_signal(number)
    began = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 5.0
    assert process.returncode == 128 + number, err
    told = json.loads(out)
    assert told["ended"] == number.name
    assert balanced(told)
    assert [each for each in below if each.is_running()] == []
    assert set(os.listdir("/dev/shm")) == shared
    if phase is _rolling_out:
        checkpoint.load(logdir)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_an_update_ends_it_and_throws_its_batch_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    mark = tmp_path / "updating"
    monkeypatch.setenv("EBRL_TEST_MARK", str(mark))
    process = start(write(plan_of(GRAPHS / "slow_update.py"), tmp_path), tmp_path / "run")
    wait_for(mark.exists)
    process.send_signal(number)
    began = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 5.0
    assert process.returncode == 128 + number, err
    told = json.loads(out)
    assert told["ledger"]["discarded"]["interrupted"] > 400
    assert balanced(told)
    checkpoint.load(tmp_path / "run")


def test_workers_carry_their_role_where_ps_shows_it(plan: Plan, tmp_path: Path) -> None:
    process = start(write(plan, tmp_path), tmp_path / "run")
    names = {"ebrl simulate 0", "ebrl simulate 1", "ebrl generate 0", "ebrl train 0"}

    def titles() -> set[str]:
        return {title(each) for each in workers(process.pid)}

    try:
        wait_for(lambda: names <= titles())
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def test_when_the_run_itself_is_killed_its_workers_go_with_it(plan: Plan, tmp_path: Path) -> None:
    process = start(write(plan, tmp_path), tmp_path / "run")
    wait_for(lambda: len(workers(process.pid)) >= 4)
    time.sleep(0.5)  # until each has asked the kernel to be told
    below = workers(process.pid)
    process.kill()
    process.communicate()
    psutil.wait_procs(below, timeout=10)
    assert [each for each in below if each.is_running()] == []


def refused(path: Path, logdir: Path, *more: str) -> dict[str, str]:
    process = start(path, logdir, *more)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    diagnostic = json.loads(out)["diagnostics"][0]
    assert diagnostic["hint"]
    return diagnostic


def test_a_graph_that_changed_since_it_was_planned_is_refused_unless_allowed(
    tmp_path: Path,
) -> None:
    graph = tmp_path / "mine.py"
    graph.write_text(GRAPH.read_text())
    path = write(plan_of(graph), tmp_path)
    graph.write_text(GRAPH.read_text() + "\n# a remark\n")
    assert refused(path, tmp_path / "a")["code"] == "graph-changed"
    told = run(path, tmp_path / "b", "--steps", "500", "--allow-changed-graph")
    assert told["env_steps"] >= 500


def test_a_plan_for_hardware_that_is_not_here_is_refused_with_what_is_missing(
    plan: Plan, tmp_path: Path
) -> None:
    stages = tuple(
        msgspec.structs.replace(
            stage,
            replicas=tuple(
                msgspec.structs.replace(replica, core_set=(500, 501)) for replica in stage.replicas
            ),
        )
        for stage in plan.stages
    )
    path = write(msgspec.structs.replace(plan, stages=stages), tmp_path)
    diagnostic = refused(path, tmp_path / "run")
    assert diagnostic["code"] == "hardware-absent"
    assert "500" in diagnostic["message"]


def test_two_runs_do_not_share_a_directory(plan: Plan, tmp_path: Path) -> None:
    path = write(plan, tmp_path)
    process = start(path, tmp_path / "run")
    try:
        wait_for((tmp_path / "run" / ".lock").exists)
        assert refused(path, tmp_path / "run")["code"] == "logdir-busy"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def test_a_plan_that_was_cut_short_is_refused_with_the_place(plan: Plan, tmp_path: Path) -> None:
    path = write(plan, tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    assert refused(path, tmp_path / "run")["code"] == "plan-malformed"
