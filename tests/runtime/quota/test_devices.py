"""Workers that share a device: what each is started with, and what happens where nothing can hold
them. The driver's two programs (NVML, the MPS control program) are the only things that are not
real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ebrl.errors import RunError
from ebrl.planner.cluster import parse
from ebrl.planner.plan import Plan, StagePlan, encode
from ebrl.runtime.events import Events
from ebrl.runtime.quota.devices import Choice, Devices, Place, identity, shared
from ebrl.runtime.rundir import EVENTS
from tests.runtime.quota.fakes import FakeControl
from tests.runtime.support import GRAPHS, plan_of

SMS = 132  # of an H100


def on_devices(**given: tuple[int, int]) -> Plan:
    """A plan for this machine with two H100s; `given`: kind of stage → device, SMs."""
    plan = plan_of(GRAPHS / "on_a_device.py", simulators=1)
    kind = parse("h100x1").nodes[0].device
    (node,) = plan.cluster.nodes
    node = msgspec.structs.replace(node, device=kind, devices=2)

    def moved(stage: StagePlan) -> StagePlan:
        if stage.kind not in given:
            return stage
        device, sms = given[stage.kind]
        (replica,) = stage.replicas
        replica = msgspec.structs.replace(replica, device=device, sms=sms)
        return msgspec.structs.replace(stage, replicas=(replica,))

    cluster = msgspec.structs.replace(plan.cluster, nodes=(node,))
    stages = tuple(moved(stage) for stage in plan.stages)
    return msgspec.structs.replace(plan, stages=stages, cluster=cluster)


def devices(
    folder: Path, choice: Choice | None, control: FakeControl, *, found: bool = True
) -> Devices:
    return Devices(choice, Events(folder), control=control, found=found)


def place(of: Devices, plan: Plan, kind: str) -> Place:
    return of.place(plan, f"{kind} 0", plan.of_kind(kind)[0].replicas[0])


def diary(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / EVENTS).read_text().splitlines()]


def test_only_a_device_that_several_have_is_shared() -> None:
    assert shared(on_devices(generate=(0, 32), train=(1, SMS))) == {}
    (device,) = shared(on_devices(generate=(1, 32), train=(1, 96))).items()
    assert device[0] == 1
    assert sorted(device[1]) == ["generate 0", "train 0"]


def test_workers_on_a_shared_device_are_clients_of_its_own_program(tmp_path: Path) -> None:
    plan = on_devices(generate=(1, 32), train=(1, 96))
    control = FakeControl()
    held = devices(tmp_path, "auto", control)
    assert held.take(plan) == frozenset()
    told = {kind: place(held, plan, kind) for kind in ("simulate", "generate", "train")}
    assert told["simulate"] == Place(device="cpu")
    for kind, sms in (("generate", 32), ("train", 96)):
        environment = told[kind].environment
        assert told[kind].device == "cuda:0"  # of the server's one device
        assert environment["CUDA_VISIBLE_DEVICES"] is None
        assert int(environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) * SMS // 100 >= sms
        assert Path(environment["CUDA_MPS_PIPE_DIRECTORY"]).name == "pipe"
    (started,) = control.asked
    assert started[2]["CUDA_VISIBLE_DEVICES"] == "1"
    (noted,) = diary(tmp_path)
    assert (noted["event"], noted["device"], noted["mechanism"]) == ("quota", 1, "MPS")
    assert noted["sms"] == {"generate 0": 32, "train 0": 96}
    folder = Path(told["train"].environment["CUDA_MPS_PIPE_DIRECTORY"]).parents[1]
    held.close()
    assert control.asked[-1][1].startswith("quit")
    assert not folder.exists()


def test_a_worker_that_has_its_device_alone_is_told_its_name_and_nothing_else(
    tmp_path: Path,
) -> None:
    plan = on_devices(generate=(0, SMS), train=(1, SMS))
    control = FakeControl()
    held = devices(tmp_path, "auto", control)
    held.take(plan)
    assert place(held, plan, "train") == Place(device="cuda:1")
    assert not control.asked


@pytest.mark.parametrize(
    ("choice", "found", "answers", "why"),
    [
        ("auto", False, {}, "is not on this machine"),
        ("auto", True, {"-d": "Cannot start: another daemon is running"}, "another daemon"),
        ("none", True, {}, "--quota none"),
    ],
)
def test_where_nothing_holds_them_it_is_said_once_and_they_take_turns(
    tmp_path: Path,
    choice: Choice,
    found: bool,
    answers: dict[str, str],
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = on_devices(generate=(1, 32), train=(1, 96))
    held = devices(tmp_path, choice, FakeControl(answers), found=found)
    held.take(plan)
    held.take(plan)
    assert place(held, plan, "train") == Place(device="cuda:1")
    said = capsys.readouterr().err
    assert said.count("GPU 1 is shared by generate 0, train 0") == 1
    assert why in said
    assert [each["event"] for each in diary(tmp_path)] == ["warning", "quota"]
    assert diary(tmp_path)[1]["mechanism"] == "none"


def test_quotas_that_were_asked_for_and_cannot_be_held_are_an_error(tmp_path: Path) -> None:
    plan = on_devices(generate=(1, 32), train=(1, 96))
    refusing = FakeControl({"-d": "Cannot start: another daemon is running"})
    with pytest.raises(RunError, match="another daemon"):
        devices(tmp_path, "mps", refusing).take(plan)


def test_another_plan_says_who_has_to_be_started_anew(tmp_path: Path) -> None:
    held = devices(tmp_path, "auto", FakeControl())
    held.take(on_devices(generate=(1, 32), train=(1, 96)))
    assert held.take(on_devices(generate=(1, 64), train=(1, 96))) == {"generate 0"}


def test_an_emulated_run_asks_for_nothing(tmp_path: Path) -> None:
    control = FakeControl()
    held = devices(tmp_path, None, control)
    held.take(on_devices(generate=(1, 32), train=(1, 96)))
    assert not control.asked


def test_a_device_is_one_of_those_that_may_be_seen() -> None:
    assert identity(1, {}) == "1"
    assert identity(1, {"CUDA_VISIBLE_DEVICES": "5, GPU-8a2f"}) == "GPU-8a2f"
    with pytest.raises(RunError, match="uses GPU 2"):
        identity(2, {"CUDA_VISIBLE_DEVICES": "5,6"})


NVML = """
class NVMLError(Exception): ...
def nvmlInit(): ...
def nvmlShutdown(): ...
def nvmlDeviceGetCount(): return 2
"""
CONTROL = """#!/bin/sh
echo "$@ $(test "$1" = -d || cat) $CUDA_VISIBLE_DEVICES" >> "$EBRL_TEST_NOTES/control"
"""


def played(folder: Path, module: str, *arguments: str) -> dict[str, Any]:
    """`python -m module`, which finds the two programs in `folder`; the JSON it ends with."""
    (folder / "pynvml.py").write_text(NVML)
    program = folder / "nvidia-cuda-mps-control"
    program.write_text(CONTROL)
    program.chmod(0o755)
    search = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(search),
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "CUDA_VISIBLE_DEVICES": "3,4",
            "EBRL_TEST_NOTES": str(folder),
        },
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def noted(folder: Path, kind: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / f"{kind}.json").read_text())
    return told


def test_a_run_starts_its_workers_as_clients_and_ends_the_program(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(encode(on_devices(generate=(0, 33), train=(0, 99))))
    run = ("execute", str(path), "--steps", "2000", "--logdir", str(tmp_path / "run"), "--json")
    assert played(tmp_path, "ebrl.cli.main", *run)["env_steps"] >= 2000
    for kind, percent in (("generate", "25"), ("train", "75")):
        told = noted(tmp_path, kind)
        assert told["device"] == "cuda:0"
        assert told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == percent
        assert "CUDA_VISIBLE_DEVICES" not in told
    first, last = (tmp_path / "control").read_text().splitlines()
    assert first.split() == ["-d", "3"]
    assert last.split() == ["quit", "-t", "5", "3"]


def test_workers_that_get_other_quotas_while_they_train_are_started_with_them(
    tmp_path: Path,
) -> None:
    plans = (
        on_devices(generate=(0, 33), train=(0, 99)),
        on_devices(generate=(0, 66), train=(0, 66)),
    )
    paths = []
    for index, plan in enumerate(plans):
        paths.append(tmp_path / f"{index}.json")
        paths[-1].write_bytes(encode(plan))
    answer = played(
        tmp_path, "tests.runtime.watch.switching", str(tmp_path / "run"), *map(str, paths)
    )
    assert "with 66 SMs" in answer["told"][0]["switch"]
    for kind in ("generate", "train"):
        assert noted(tmp_path, kind)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    ledger = answer["summary"]["ledger"]
    assert ledger["produced"] == (
        ledger["trained"] + sum(ledger["discarded"].values()) + ledger["in_flight"]
    )
    assert answer["summary"]["restarts"] == 0
