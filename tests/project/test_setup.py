"""Setting up: which interpreter, which torch, and the Vulkan driver, with stand-ins on the path for
the programs of the system (apt-get, nvidia-smi, python)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOOKWORM = {"ID": "debian", "VERSION_CODENAME": "bookworm", "PRETTY_NAME": "Debian 12"}
UBUNTU = {"ID": "ubuntu", "VERSION_CODENAME": "noble", "PRETTY_NAME": "Ubuntu 24.04"}
FEDORA = {"ID": "fedora", "PRETTY_NAME": "Fedora 43"}
TARGETS = """\
http://mirror.example/debian-security bookworm-security bookworm-security main
http://mirror.example/debian stable bookworm contrib
http://mirror.example/debian stable bookworm main
"""


@pytest.fixture(scope="module")
def setup_vulkan() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_vulkan", ROOT / "scripts/setup_vulkan.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_os_release_is_read_with_and_without_quotes(setup_vulkan: ModuleType):
    text = '# comment\nID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n\n'
    assert setup_vulkan.os_release(text) == {
        "ID": "debian",
        "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)",
    }


@pytest.mark.parametrize(
    ("release", "root", "gpus", "apt", "reason"),
    [
        (BOOKWORM, True, False, True, ""),
        (UBUNTU, True, False, True, ""),
        (BOOKWORM, False, False, True, "needs root"),
        (BOOKWORM, True, True, True, "NVIDIA GPU"),
        (FEDORA, True, False, False, "Fedora 43 is neither Debian nor Ubuntu"),
        ({}, True, False, False, "neither Debian nor Ubuntu"),
    ],
)
def test_what_stands_in_the_way_is_said(
    setup_vulkan: ModuleType,
    release: dict[str, str],
    root: bool,
    gpus: bool,
    apt: bool,
    reason: str,
):
    told = setup_vulkan.obstacle(release, root=root, gpus=gpus, apt=apt)
    assert (reason in told) if reason else told == ""


def test_the_way_by_hand_fits_the_system(setup_vulkan: ModuleType):
    assert "-t bookworm-backports mesa-vulkan-drivers" in setup_vulkan.advice(BOOKWORM)
    assert setup_vulkan.advice(UBUNTU) == "sudo apt-get install mesa-vulkan-drivers libvulkan1"
    assert "lavapipe" in setup_vulkan.advice(FEDORA)


def test_the_mirror_is_the_one_that_the_machine_uses(setup_vulkan: ModuleType):
    assert setup_vulkan.mirror(TARGETS, "bookworm") == "http://mirror.example/debian"
    assert setup_vulkan.mirror(TARGETS, "trixie") == ""


def apt(folder: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> Path:
    """An apt-get that writes down what it was asked, and the sources it was given."""
    log = folder / "log"
    targets = folder / "targets"
    targets.write_text(TARGETS)
    stand_in(
        folder,
        "apt-get",
        f'echo "$@" >> {log}\n'
        f"case $1 in indextargets) cat {targets}; exit 0;; esac\n"
        'for word in "$@"; do case $word in\n'
        f'  Dir::Etc::sourcelist=*) cat "${{word#*=}}" >> {log};;\n'
        "esac; done\n" + ("exit 100" if fails else "exit 0"),
    )
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return log


def test_debian_12_takes_the_driver_from_its_backports(
    setup_vulkan: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = apt(tmp_path, monkeypatch)
    assert setup_vulkan.install(BOOKWORM, dry_run=False)
    asked = log.read_text()
    assert "URIs: http://mirror.example/debian\n" in asked
    assert "Suites: bookworm bookworm-backports\n" in asked
    assert "Dir::Etc::sourceparts=/dev/null" in asked
    wanted = "install -y -q --no-install-recommends -t bookworm-backports mesa-vulkan-drivers"
    assert f"{wanted} libvulkan1\n" in asked
    assert "Dir::State::lists=/" in asked


def test_other_releases_take_it_from_their_own_sources(
    setup_vulkan: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = apt(tmp_path, monkeypatch)
    assert setup_vulkan.install(UBUNTU, dry_run=True)
    asked = log.read_text()
    assert "sourcelist" not in asked
    assert "install -y -q --no-install-recommends mesa-vulkan-drivers libvulkan1 -s\n" in asked


def test_an_apt_that_fails_is_told_and_ends_well(
    setup_vulkan: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    apt(tmp_path, monkeypatch, fails=True)
    monkeypatch.setattr(setup_vulkan, "look", lambda: (False, "no device"))
    monkeypatch.setattr(setup_vulkan, "obstacle", lambda *_, **__: "")
    monkeypatch.setattr(setup_vulkan, "os_release", lambda _: BOOKWORM)
    setup_vulkan.main([])
    err = capsys.readouterr().err
    assert "no device. apt-get could not install it." in err
    assert "To use ManiSkill here: enable bookworm-backports" in err


def test_a_machine_that_has_a_driver_is_left_alone(
    setup_vulkan: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    log = apt(tmp_path, monkeypatch)
    monkeypatch.setattr(setup_vulkan, "look", lambda: (True, "llvmpipe"))
    setup_vulkan.main([])
    assert capsys.readouterr().out == "vulkan: llvmpipe\n"
    assert not log.exists()


def find_python(path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(ROOT / "scripts/find_python.sh")],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_first_interpreter_in_the_range_is_taken(tmp_path: Path):
    stand_in(tmp_path, "python3", "exit 1")  # too old, or without venv
    stand_in(tmp_path, "python3.12", f'exec {sys.executable} "$@"')
    done = find_python(f"{tmp_path}:/usr/bin:/bin")
    assert done.stdout.strip() in (f"{tmp_path}/python3.12", "/usr/bin/python3.11")


def test_without_an_interpreter_it_says_what_to_install(tmp_path: Path):
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        stand_in(tmp_path, name, "exit 1")
    done = find_python(f"{tmp_path}:/usr/bin:/bin")
    assert "Python 3.11, 3.12 or 3.13" in done.stderr
    assert "python3-venv" in done.stderr


@pytest.mark.parametrize(("status", "pinned"), [(0, False), (9, True)])
def test_torch_is_pinned_only_where_there_is_no_gpu(tmp_path: Path, status: int, pinned: bool):
    stand_in(tmp_path, "nvidia-smi", f"exit {status}")
    done = subprocess.run(
        ["make", "-n", "-B", "setup", "PYTHON=python3"],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("-c constraints-cpu.txt" in done.stdout) is pinned
