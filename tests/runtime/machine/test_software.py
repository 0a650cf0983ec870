"""Packages are found by what lies on the path: here, small installations written to a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ebrl.runtime.machine import software


def install(folder: Path, package: str, release: str, **files: str) -> None:
    """A package with its metadata, as pip lays it down."""
    metadata = folder / f"{package}-{release}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: {release}\n"
    )
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text("raise ImportError('must not be imported')\n")
    for name, text in files.items():
        (folder / package / f"{name}.py").write_text(text)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path on which nothing lies but what the test installs."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in ("torch", "pulp", "ray"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_a_cpu_build_of_torch_is_fine_without_a_gpu_and_a_gap_with_one(packages: Path):
    install(packages, "torch", "2.13.0+cpu", version="cuda: Optional[str] = None\n")
    assert software.torch(gpu_present=False).detail == "2.13.0+cpu (CPU build)"
    check = software.torch(gpu_present=True)
    assert not check.ok
    assert "CUDA" in check.fix


def test_the_cuda_version_of_torch_is_read_from_its_text(packages: Path):
    text = "__version__ = '2.13.0'\ncuda: Optional[str] = '13.0'\nhip = None\n"
    install(packages, "torch", "2.13.0", version=text)
    assert software.torch_cuda() == "13.0"
    assert software.torch(gpu_present=True).detail == "2.13.0 (CUDA 13.0)"


def test_an_old_torch_is_to_be_upgraded(packages: Path):
    install(packages, "torch", "2.8.1", version="cuda = None\n")
    check = software.torch(gpu_present=False)
    assert not check.ok
    assert check.required
    assert "--upgrade" in check.fix


def test_what_is_not_installed_comes_with_the_command_that_installs_it(packages: Path):
    for check in (
        software.torch(gpu_present=False),
        software.solver(),
        software.simulators(),
        software.ray(),
    ):
        assert not check.ok
        assert f"{sys.executable} -m pip install" in check.fix


def test_a_solver_on_the_path_is_enough(packages: Path, monkeypatch: pytest.MonkeyPatch):
    install(packages, "pulp", "4.0.0")
    monkeypatch.setenv("PATH", str(packages))
    assert not software.solver().ok
    (packages / "cbc").write_text("#!/bin/sh\n")
    (packages / "cbc").chmod(0o755)
    assert software.solver().detail == "PuLP 4.0.0 with CBC"


def test_ray_tells_where_its_cluster_is(packages: Path, monkeypatch: pytest.MonkeyPatch):
    install(packages, "ray", "2.60.0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(software, "running", lambda name: False)
    assert software.ray().detail == "2.60.0, not running; the engine starts it"
    monkeypatch.setattr(software, "running", lambda name: name == "raylet")
    assert software.ray().detail == "2.60.0, running on this machine"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert software.ray().detail == "2.60.0, cluster at 10.0.0.1:6379"


def test_a_running_program_is_found_by_its_name():
    with subprocess.Popen(["sleep", "60"]) as process:
        assert software.running("sleep")
        process.kill()
    assert not software.running("no-such-program-of-ours")


def test_a_library_that_the_system_lacks_is_named_with_its_package(
    packages: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("gymnasium", "mani_skill"):
        install(packages, name, "3.0.1")
    assert software.missing_libraries(["libc.so.6", "libnot-there.so.1"]) == ["libnot-there.so.1"]
    monkeypatch.setattr(software, "missing_libraries", lambda: ["libGL.so.1"])
    check = software.simulators()
    assert not check.ok
    assert "OpenCV cannot load libGL.so.1" in check.detail
    assert "apt-get install libgl1" in check.fix
    monkeypatch.setattr(software, "missing_libraries", list)
    assert software.simulators().ok
