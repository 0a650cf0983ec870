"""This machine: cores by affinity and quota, memory by limit, NUMA from /sys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ebrl.errors import PlanError
from ebrl.planner import detect, nvml

GIB = 1024**3


def machine(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A root with a process in these control groups and these files under /sys."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        file = root / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_the_tightest_quota_on_the_way_to_the_root_counts(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "0::/slice/pod\n",
        {
            "fs/cgroup/cpu.max": "max 100000\n",
            "fs/cgroup/slice/cpu.max": "150000 100000\n",
            "fs/cgroup/slice/pod/cpu.max": "400000 100000\n",
            "fs/cgroup/slice/memory.max": "max\n",
            "fs/cgroup/slice/pod/memory.max": f"{8 * GIB}\n",
        },
    )
    assert detect.cpu_quota(root) == 1.5
    assert detect.memory_limit(root) == 8 * GIB


def test_in_a_container_the_parents_of_a_hidden_group_count(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/docker/abc\n", {"fs/cgroup/cpu.max": "200000 100000\n"})
    assert detect.cpu_quota(root) == 2.0


def test_version_one_of_control_groups_is_understood(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "4:memory:/box\n3:cpu,cpuacct:/box\n0::/\n",
        {
            "fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "250000\n",
            "fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
            "fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "fs/cgroup/memory/box/memory.limit_in_bytes": f"{4 * GIB}\n",
            "fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert detect.cpu_quota(root) == 2.5
    assert detect.memory_limit(root) == 4 * GIB


def test_without_limits_there_are_none(tmp_path: Path) -> None:
    assert detect.cpu_quota(tmp_path) is None
    assert detect.memory_limit(tmp_path) is None
    garbled = machine(tmp_path, "0::/\n", {"fs/cgroup/cpu.max": "soon later\n"})
    assert detect.cpu_quota(garbled) is None


def test_limits_make_the_machine_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 8, 9})
    monkeypatch.setattr(nvml, "devices", lambda: ())
    files = {
        "fs/cgroup/cpu.max": "300000 100000\n",
        "fs/cgroup/memory.max": f"{GIB}\n",
        "devices/system/node/node0/cpulist": "0-3\n",
        "devices/system/node/node1/cpulist": "8-11\n",
    }
    node = detect.local(machine(tmp_path, "0::/\n", files)).nodes[0]
    assert node.cores == 3
    assert node.ram_bytes == GIB
    assert node.numa == ((0, 1, 2),)


def test_numa_lists_allowed_cores_only(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "",
        {
            "devices/system/node/node0/cpulist": "0-1,4\n",
            "devices/system/node/node1/cpulist": "2-3\n",
            "devices/system/node/node10/cpulist": "5\n",
        },
    )
    assert detect.domains(root, [0, 3, 4, 5]) == ((0, 4), (3,), (5,))


def test_where_sys_does_not_tell_all_cores_are_one_domain(tmp_path: Path) -> None:
    assert detect.domains(tmp_path, [0, 1]) == ((0, 1),)


@pytest.mark.parametrize("text", ["a", "1-", "-1", "0x1", "1--2", "1,,2", "3-1", "0-999999999"])
def test_a_malformed_list_of_cores_is_a_fault(text: str) -> None:
    with pytest.raises(PlanError):
        detect.core_list(text)


def test_the_machine_that_runs_this_test_is_found() -> None:
    cluster = detect.local()
    node = cluster.nodes[0]
    assert cluster.local
    assert 1 <= node.cores <= len(os.sched_getaffinity(0))
    assert node.ram_bytes > 256 * 1024**2
    assert {core for domain in node.numa for core in domain} <= os.sched_getaffinity(0)
    assert cluster.digest() == detect.local().digest()
