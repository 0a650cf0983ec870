"""Launch scripts: golden files, parsed by what will read them, and run against stand-ins."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
import yaml
from msgspec import Meta

from ebrl.errors import PlanError
from ebrl.planner import launch
from ebrl.planner.plan import Plan, encode
from tests.planner.hardware import plans
from tests.planner.model.test_properties import gpu_plan

GOLDEN = Path(__file__).parent / "golden"
CASES: list[tuple[str, launch.Target, Plan]] = [
    ("one_node", "slurm", plans.one_node()),
    ("many_nodes", "slurm", plans.many_nodes()),
    ("many_nodes", "kubernetes", plans.many_nodes()),
    ("cores_alone", "kubernetes", plans.cores_alone()),
    ("one_node", "mps", plans.one_node()),
    ("many_nodes", "mps", plans.many_nodes()),
]


@pytest.mark.parametrize(("name", "target", "plan"), CASES, ids=[f"{n}-{t}" for n, t, _ in CASES])
def test_a_script_is_the_golden_one(name: str, target: launch.Target, plan: Plan) -> None:
    """After a wanted change: EBRL_GOLDEN=write pytest tests/planner/hardware/test_launch.py"""
    for file, text in launch.render(plan, target).items():
        # A plan's digest changes with its format; the scripts only quote it.
        shown = text.replace(plan.digest(), "DIGEST").replace(plan.digest()[:12], "DIGEST")
        golden = GOLDEN / f"{name}-{file}"
        if os.environ.get("EBRL_GOLDEN") == "write":
            golden.write_text(shown, encoding="utf-8")
        assert shown == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "target", "plan"), CASES, ids=[f"{n}-{t}" for n, t, _ in CASES])
def test_bash_can_parse_every_shell_script(
    tmp_path: Path, name: str, target: launch.Target, plan: Plan
) -> None:
    for file in launch.write(plan, target, tmp_path):
        if file.suffix in (".sh", ".sbatch"):
            done = subprocess.run(["bash", "-n", file], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")


def test_every_target_has_a_golden_file() -> None:
    assert {file.suffix for file in GOLDEN.iterdir()} == {".sh", ".sbatch", ".yaml"}


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a Kubernetes object as we write it: nothing may be in it that is not declared."""


class Metadata(Strict, frozen=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=47)]
    annotations: dict[str, str]


class Mount(Strict, frozen=True):
    name: str
    mountPath: str  # noqa: N815


class Resources(Strict, frozen=True):
    requests: dict[str, str]
    limits: dict[str, str]


class Container(Strict, frozen=True):
    name: str
    image: str
    resources: Resources
    volumeMounts: list[Mount]  # noqa: N815


class PodSpec(Strict, frozen=True):
    containers: Annotated[list[Container], Meta(min_length=1, max_length=1)]
    volumes: list[dict[str, Any]]


class Template(Strict, frozen=True):
    spec: PodSpec


class Head(Strict, frozen=True):
    rayStartParams: dict[str, str]  # noqa: N815
    template: Template


class Worker(Strict, frozen=True):
    groupName: str  # noqa: N815
    replicas: Annotated[int, Meta(ge=1)]
    minReplicas: int  # noqa: N815
    maxReplicas: int  # noqa: N815
    rayStartParams: dict[str, str]  # noqa: N815
    template: Template


class ClusterSpec(Strict, frozen=True):
    headGroupSpec: Head  # noqa: N815
    workerGroupSpecs: Annotated[list[Worker], Meta(min_length=1)]  # noqa: N815


class JobSpec(Strict, frozen=True):
    entrypoint: str
    shutdownAfterJobFinishes: bool  # noqa: N815
    ttlSecondsAfterFinished: int  # noqa: N815
    rayClusterSpec: ClusterSpec  # noqa: N815


class RayJob(Strict, frozen=True):
    apiVersion: Literal["ray.io/v1"]  # noqa: N815
    kind: Literal["RayJob"]
    metadata: Metadata
    spec: JobSpec


def ray_job(plan: Plan) -> RayJob:
    return msgspec.convert(
        yaml.safe_load(launch.render(plan, "kubernetes")["rayjob.yaml"]), type=RayJob
    )


def test_a_ray_job_asks_for_the_nodes_of_the_plan_and_no_others() -> None:
    job = ray_job(plans.many_nodes())
    devices, cores = job.spec.rayClusterSpec.workerGroupSpecs
    assert (devices.groupName, devices.replicas, devices.minReplicas) == ("h100x2", 2, 2)
    assert devices.rayStartParams == {"num-cpus": "28", "num-gpus": "2"}
    limits = devices.template.spec.containers[0].resources.limits
    assert limits["nvidia.com/gpu"] == "2"
    assert (cores.groupName, cores.replicas) == ("cpu64", 1)
    assert "nvidia.com/gpu" not in cores.template.spec.containers[0].resources.limits
    assert job.metadata.annotations["ebrl/plan"] == plans.many_nodes().digest()


def test_a_ray_jobs_volumes_are_those_that_are_mounted() -> None:
    groups = ray_job(plans.many_nodes()).spec.rayClusterSpec
    for spec in (groups.headGroupSpec.template.spec, groups.workerGroupSpecs[0].template.spec):
        mounted = {mount.name for mount in spec.containers[0].volumeMounts}
        assert mounted == {volume["name"] for volume in spec.volumes}


def test_names_that_yaml_would_take_for_something_else_stay_names() -> None:
    plan = msgspec.structs.replace(
        plans.cores_alone(),
        program=msgspec.structs.replace(plans.cores_alone().program, name="1: {no}"),
    )
    assert ray_job(plan).metadata.name == "1-no"


def directives(text: str) -> list[list[str]]:
    """#SBATCH lines, split at each hetjob."""
    parts: list[list[str]] = [[]]
    for line in re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE):
        if line == "hetjob":
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def test_slurm_is_asked_for_what_the_plan_uses() -> None:
    (one,) = directives(launch.render(plans.one_node(), "slurm")["job.sbatch"])
    assert {"--nodes=1", "--cpus-per-task=112", "--gpus-per-node=8"} <= set(one)
    first, second = directives(launch.render(plans.many_nodes(), "slurm")["job.sbatch"])
    assert {"--nodes=2", "--gpus-per-node=h100:2"} <= set(first)
    assert {"--nodes=1", "--cpus-per-task=64"} <= set(second)
    assert not [line for line in second if "gpus" in line]


def stand_in(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/usr/bin/env bash\n{script}\n")
    file.chmod(0o755)


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "LOG": str(folder / "log"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_job_of_many_nodes_starts_ray_everywhere_and_the_plan_once(tmp_path: Path) -> None:
    launch.write(plans.many_nodes(), "slurm", tmp_path)
    stand_in(tmp_path, "srun", 'echo "$@" >> "$LOG"; [[ "$*" != *"ray start"* ]] || exec sleep 30')
    stand_in(tmp_path, "scontrol", 'printf "%s\\n" ${3//,/ }')
    stand_in(tmp_path, "ray", "exit 0")
    stand_in(tmp_path, "df", "echo Avail; echo 999999")
    stand_in(tmp_path, "ebrl", "echo --engine local or ray")
    done = run(
        tmp_path,
        "bash",
        "job.sbatch",
        SLURM_JOB_ID="7",
        SLURM_JOB_NODELIST_HET_GROUP_0="a,b",
        SLURM_JOB_NODELIST_HET_GROUP_1="c",
    )
    assert (done.returncode, done.stderr) == (0, "")
    calls = (tmp_path / "log").read_text().splitlines()
    heads = [call for call in calls if "ray start --head" in call]
    others = [call for call in calls if "ray start --block" in call]
    (executed,) = [call for call in calls if "ebrl execute" in call]
    assert len(heads) == 1
    assert "--nodelist=a" in heads[0]
    assert all("--address=a:20007" in call for call in others)
    assert ["--nodes=1" in call for call in others] == [True, True]
    assert "execute plan.json --engine ray" in executed


def test_a_job_of_many_nodes_ends_before_it_starts_where_no_engine_can_run_it(
    tmp_path: Path,
) -> None:
    launch.write(plans.many_nodes(), "slurm", tmp_path)
    stand_in(tmp_path, "srun", 'echo "$@" >> "$LOG"')
    stand_in(tmp_path, "df", "echo Avail; echo 999999")
    stand_in(tmp_path, "ebrl", "echo --steps --seconds")
    done = run(tmp_path, "bash", "job.sbatch", SLURM_JOB_ID="7")
    assert done.returncode == 1
    assert "executes plans of one node; this plan has 3" in done.stderr
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(("says", "code"), [("--engine", 0), ("--steps", 1)])
def test_a_ray_job_asks_for_the_engine_before_it_uses_it(
    tmp_path: Path, says: str, code: int
) -> None:
    stand_in(tmp_path, "ebrl", f'echo "$@" >> "$LOG"; echo {says}')
    done = run(tmp_path, "sh", "-c", ray_job(plans.many_nodes()).spec.entrypoint)
    assert done.returncode == code
    calls = (tmp_path / "log").read_text().splitlines()
    assert calls[0] == "execute --help"
    assert len(calls) == 1 + (code == 0)


def test_a_full_dev_shm_is_said_before_anything_starts(tmp_path: Path) -> None:
    launch.write(plans.one_node(), "slurm", tmp_path)
    stand_in(tmp_path, "df", "echo Avail; echo 64")
    stand_in(tmp_path, "srun", "exit 99")
    done = run(tmp_path, "bash", "job.sbatch")
    assert done.returncode == 1
    assert "64 MiB free, the plan needs 3328 MiB" in done.stderr


# Like the real one, this control program exits with 0 whatever happens; only its text tells.
CONTROL = """
pid="$CUDA_MPS_PIPE_DIRECTORY/pid"
if [[ ${1:-} == -d ]]; then
    [[ -z ${BROKEN:-} ]] || { echo "An instance of this daemon is already running"; exit 0; }
    echo "$CUDA_VISIBLE_DEVICES" > "$pid"; exit 0
fi
read -r command
[[ -f $pid ]] || { echo "Cannot find MPS control daemon process"; exit 0; }
case $command in
get_default_active_thread_percentage) echo 100.0 ;;
get_server_list) echo 4711 ;;
quit*) rm "$pid" ;;
esac
"""


@pytest.fixture
def mps(tmp_path: Path) -> Path:
    launch.write(plans.one_node(), "mps", tmp_path)
    stand_in(tmp_path, "nvidia-cuda-mps-control", CONTROL)
    return tmp_path


def control(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = str(folder / "mps-h100x8-0.sh")
    return run(folder, script, *arguments, EBRL_MPS_ROOT=str(folder / "pipes"), **environment)


def test_mps_starts_says_how_it_is_and_stops(mps: Path) -> None:
    assert control(mps, "status").returncode == 1
    for _ in range(2):  # a second start changes nothing
        assert control(mps, "start").returncode == 0
    assert (mps / "pipes/h100x8-0/0/pipe/pid").read_text() == "0\n"
    assert not (mps / "pipes/h100x8-0/1").exists()  # alone on its device
    assert "device 0: servers 4711" in control(mps, "status").stdout
    for _ in range(2):
        assert control(mps, "stop").returncode == 0
    assert control(mps, "status").returncode == 1


def test_an_exit_code_of_zero_is_not_taken_for_success(mps: Path) -> None:
    done = control(mps, "start", BROKEN="1", EBRL_MPS_PATIENCE_S="0")
    assert done.returncode == 1
    assert "does not answer: An instance of this daemon is already running" in done.stderr


def test_each_client_gets_its_own_share_of_its_own_device(mps: Path) -> None:
    told = control(mps, "env", "generate", "0").stdout
    assert f"CUDA_MPS_PIPE_DIRECTORY={mps}/pipes/h100x8-0/0/pipe" in told
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=49" in told  # 64 of 132, rounded up
    assert "unset CUDA_VISIBLE_DEVICES" in told
    assert control(mps, "env", "generate", "9").returncode == 1
    assert control(mps, "dance").returncode == 2


def test_the_shares_of_one_device_exceed_it_by_their_rounding_at_most() -> None:
    for clients in launch.clients(plans.one_node()).values():
        assert sum(client.percent for client in clients) < 100 + len(clients)


def test_where_nothing_is_shared_mps_is_refused() -> None:
    with pytest.raises(PlanError, match="MPS has nothing to do"):
        launch.render(plans.cores_alone(), "mps")


def test_the_command_writes_scripts_and_the_plan_beside_them(tmp_path: Path, python: str) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(encode(gpu_plan(1, 2)))
    command = [python, "-m", "ebrl", "launch", str(file), "--target", "slurm", "--json"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out")], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["files"] == [
        str(tmp_path / "out/plan.json"),
        str(tmp_path / "out/job.sbatch"),
    ]
    assert (tmp_path / "out/plan.json").read_bytes() == file.read_bytes()
    assert os.access(tmp_path / "out/job.sbatch", os.X_OK)


def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match="cannot write"):
        launch.write(plans.one_node(), "slurm", tmp_path / "file")
