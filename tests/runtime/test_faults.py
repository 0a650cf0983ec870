"""Real runs whose workers die, again and again or once: verdicts, exact repetition, full disks."""

from __future__ import annotations

import json
import resource
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from ebrl.planner.plan import Plan
from ebrl.runtime import checkpoint
from tests.runtime.support import GRAPHS, plan_of
from tests.runtime.test_checkpoint import state, tensors
from tests.runtime.test_run import balanced, refused, run, start, title, wait_for, workers, write

GRAPH = GRAPHS / "cartpole.py"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(GRAPH)


def lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    text = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in text if line.endswith("\n")]


def updates(logdir: Path, count: int) -> None:
    wait_for(lambda: len(lines(logdir / "progress.jsonl")) >= count)


def victim(pid: int, name: str) -> psutil.Process | None:
    return next((each for each in workers(pid) if title(each) == f"ebrl {name}"), None)


def test_what_dies_again_and_again_ends_the_run_with_how_often_and_how(
    plan: Plan, tmp_path: Path
) -> None:
    logdir = tmp_path / "run"
    process = start(write(plan, tmp_path), logdir, "--patience", "3")
    updates(logdir, 2)
    while process.poll() is None:
        found = victim(process.pid, "simulate 1")
        if found is not None:
            found.kill()
        time.sleep(0.05)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    (diagnostic,) = json.loads(out)["diagnostics"]
    assert diagnostic["code"] == "worker-keeps-failing"
    for words in ("simulate 1", "environments 4–7", "SIGKILL", "3 times in a row"):
        assert words in diagnostic["message"]
    assert json.loads((logdir / "summary.json").read_text())["ended"] == "failed"
    assert lines(logdir / "events.jsonl")[-1]["event"] == "gave-up"
    checkpoint.load(logdir)


def test_an_environment_that_keeps_raising_ends_the_run_with_the_user_s_own_words(
    tmp_path: Path,
) -> None:
    path = write(plan_of(GRAPHS / "broken.py"), tmp_path)
    process = start(path, tmp_path / "run", "--patience", "3")
    out, err = process.communicate(timeout=90)
    assert process.returncode == 1, err
    diagnostic = json.loads(out)["diagnostics"][0]
    assert diagnostic["code"] == "environment-keeps-failing"
    assert "the gripper is on fire" in diagnostic["message"]
    assert "3 times in a row" in diagnostic["message"]
    assert "Traceback" not in err
    told = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert balanced(told)
    assert told["rebuilds"] >= 3


def test_an_environment_that_cannot_be_made_ends_the_run_at_once(tmp_path: Path) -> None:
    graph = tmp_path / "unmakeable.py"
    text = GRAPH.read_text().replace(
        'Gymnasium("CartPole-v1")', 'Gymnasium("CartPole-v1", max_episode_steps=50)'
    )
    graph.write_text(text)
    path = write(plan_of(graph), tmp_path)
    graph.write_text(text.replace('"CartPole-v1"', '"CartPole-v77"'))
    began = time.monotonic()
    process = start(path, tmp_path / "run", "--allow-changed-graph")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "CartPole-v77" in json.loads(out)["diagnostics"][0]["message"]
    assert not any(e["event"] == "recovered" for e in lines(tmp_path / "run" / "events.jsonl"))
    assert time.monotonic() - began < 50


STEPS = ("--steps", "7000", "--seed", "3", "--checkpoint-updates", "4", "--patience", "9")


def test_a_synchronous_run_that_lost_workers_and_was_killed_equals_one_that_did_not(
    tmp_path: Path,
) -> None:
    """Bit for bit: whoever answers or learns, and however often it is started."""
    path = write(plan_of(GRAPH, max_staleness=0), tmp_path)
    whole = run(path, tmp_path / "whole", *STEPS)
    logdir = tmp_path / "harmed"
    harmed = start(path, logdir, *STEPS)
    for count, name in ((1, "train 0"), (3, "generate 0")):
        updates(logdir, count)
        found = victim(harmed.pid, name)
        if found is not None:
            found.kill()
    updates(logdir, 8)
    harmed.kill()
    harmed.communicate()
    assert [e for e in lines(logdir / "events.jsonl") if e["event"] == "fault"]
    resumed = run(path, tmp_path / "resumed", "--resume", str(logdir), *STEPS)
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    assert resumed["env_steps"] < whole["env_steps"]
    last = lines(tmp_path / "resumed" / "progress.jsonl")[-1]
    assert last["env_steps"] == whole["env_steps"]  # the axis of the curves goes on


def test_a_resumed_run_goes_on_from_the_version_the_steps_and_the_seed_it_had(
    plan: Plan, tmp_path: Path
) -> None:
    path = write(plan, tmp_path)
    first = run(path, tmp_path / "a", "--steps", "1500", "--seed", "11")
    again = run(path, tmp_path / "b", "--steps", "3000", "--resume", str(tmp_path / "a"))
    assert again["updates"] > first["updates"]
    assert again["staleness"]["max"] <= 1
    _, before = checkpoint.load(tmp_path / "a")
    _, state = checkpoint.load(tmp_path / "b")
    assert state.trained == first["env_steps"] + again["env_steps"] >= 3000
    assert state.seed == 11
    assert all(b > a for a, b in zip(before.decisions, state.decisions, strict=True))
    assert all(b > a for a, b in zip(before.lives, state.lives, strict=True))


def test_a_checkpoint_of_another_graph_or_an_altered_one_is_refused_before_the_start(
    plan: Plan, tmp_path: Path
) -> None:
    path = write(plan, tmp_path)
    theirs = state(3, graph=plan.program.name)  # of the same name, but another file
    folder, _ = checkpoint.save(tmp_path / "a", tensors(), theirs)
    told = refused(path, tmp_path / "b", "--resume", str(tmp_path / "a"))
    assert told["code"] == "checkpoint-of-another-graph"
    (folder / checkpoint.TENSORS).write_bytes((folder / checkpoint.TENSORS).read_bytes()[:-7])
    told = refused(path, tmp_path / "c", "--resume", str(tmp_path / "a"))
    assert told["code"] == "checkpoint-altered"
    assert not (tmp_path / "c" / "logs" / "train-0.log").exists()


def test_on_a_full_disk_training_goes_on_and_says_so(plan: Plan, tmp_path: Path) -> None:
    logdir = tmp_path / "run"
    process = start(write(plan, tmp_path), logdir, "--checkpoint-every", "1")
    updates(logdir, 2)
    below = [process.pid, *(each.pid for each in workers(process.pid))]
    size = (logdir / "progress.jsonl").stat().st_size
    for pid in below:  # from now on, no file may grow
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size // 2, size // 2))
    trained = lines(logdir / "progress.jsonl")[-1]["env_steps"]
    time.sleep(2.0)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 143, err
    told = json.loads(out)
    assert told["env_steps"] > 2 * trained
    assert balanced(told)
    assert "warning" in err
    assert "is not saved" in err
    assert "metrics are not written" in err


def test_what_a_dead_worker_had_started_goes_with_it(tmp_path: Path) -> None:
    path = write(plan_of(GRAPHS / "leaves_a_child.py", simulators=1), tmp_path)
    process = start(path, tmp_path / "run")
    updates(tmp_path / "run", 2)

    def servers() -> list[psutil.Process]:
        return [each for each in workers(process.pid) if "sleep 1000" in title(each)]

    wait_for(lambda: len(servers()) >= 2)
    before = servers()
    found = victim(process.pid, "simulate 0")
    assert found is not None
    found.kill()
    wait_for(lambda: not any(each.is_running() for each in before))
    wait_for(lambda: len(servers()) >= 1)
    left = servers()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert not any(each.is_running() for each in left)


def weights(logdir: Path) -> torch.Tensor:
    return checkpoint.load(logdir)[0]["values"]


def test_two_learners_come_to_the_weights_of_one_also_when_one_of_them_dies(
    tmp_path: Path,
) -> None:
    steps = ("--steps", "2000", "--seed", "3")
    path = write(plan_of(GRAPH, max_staleness=0), tmp_path)
    run(path, tmp_path / "one", *steps)
    path = write(plan_of(GRAPH, max_staleness=0, learners=2), tmp_path)
    process = start(path, tmp_path / "two", *steps)
    updates(tmp_path / "two", 1)
    found = victim(process.pid, "train 1")
    if found is not None:
        found.kill()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert balanced(told)
    assert told["restarts"] in (0, 2)
    torch.testing.assert_close(
        weights(tmp_path / "two"), weights(tmp_path / "one"), rtol=1e-3, atol=1e-4
    )
