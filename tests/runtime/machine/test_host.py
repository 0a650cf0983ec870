"""Cores, memory and the rest: for real, and on small machines written to a folder."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from ebrl.runtime.machine import host


def machine(root: Path, **files: str) -> Path:
    """A /proc and /sys of a process in the version 2 control group /job."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/job\n")
    (root / "sys/fs/cgroup/job").mkdir(parents=True)
    for name, text in files.items():
        (root / "sys/fs/cgroup/job" / name.replace("_", ".")).write_text(text)
    return root


def test_this_machine_has_what_a_run_needs():
    for check in (host.python(), host.cores(), host.shared_memory(), host.wake_ups()):
        assert check.ok or check.name == "shared memory", check  # a container's may be small
        assert check.detail


def test_a_quota_below_the_cores_is_told(tmp_path: Path):
    quota = (os.cpu_count() or 1) - 0.5
    check = host.cores(machine(tmp_path, cpu_max=f"{int(quota * 100_000)} 100000\n"))
    assert f"{quota:g} by control group" in check.detail


def test_less_than_a_core_is_a_gap(tmp_path: Path):
    check = host.cores(machine(tmp_path, cpu_max="50000 100000\n"))
    assert not check.ok
    assert check.required
    assert check.detail.startswith("0.5 of ")


def test_a_small_memory_limit_is_a_gap(tmp_path: Path):
    check = host.memory(machine(tmp_path, memory_max="2000000000\n"))
    assert not check.ok
    assert check.detail.startswith("2.0 GB by control group")
    assert "4 GB" in check.fix


def test_shared_memory_needs_room_in_the_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    missing = host.shared_memory(tmp_path / "nowhere")
    assert not missing.ok
    assert "there is no" in missing.detail
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=64e6, free=64e6))
    small = host.shared_memory(tmp_path)
    assert not small.ok
    assert "0.06 GB free" in small.detail
    assert "--shm-size" in small.fix


def test_a_system_without_memfd_cannot_run(monkeypatch: pytest.MonkeyPatch):
    def refused(name: str) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refused)
    check = host.shared_memory()
    assert not check.ok
    assert check.required
    assert "Operation not permitted" in check.detail


def test_few_file_handles_are_a_gap(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    check = host.files()
    assert not check.ok
    assert check.fix.startswith("ulimit -n 1024")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert host.files().ok


def test_a_full_disk_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1e6))
    check = host.disk(tmp_path)
    assert not check.ok
    assert "--logdir" in check.fix


def test_an_interpreter_outside_the_range_is_a_gap(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.version_info", (3, 14, 0))
    assert not host.python().ok
    monkeypatch.setattr("sys.version_info", (3, 11, 7))
    assert host.python().ok
