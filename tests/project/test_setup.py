"""Setting up: which interpreter, which torch, what ManiSkill needs. Stand-ins on the path take the
place of the programs of the system (apt-get, nvidia-smi, python)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ebrl.runtime.machine.check import Check

ROOT = Path(__file__).resolve().parents[2]
BOOKWORM = {"ID": "debian", "VERSION_CODENAME": "bookworm", "PRETTY_NAME": "Debian 12"}
UBUNTU = {"ID": "ubuntu", "VERSION_CODENAME": "noble", "PRETTY_NAME": "Ubuntu 24.04"}
VULKAN = ("mesa-vulkan-drivers", "libvulkan1")
FEDORA = {"ID": "fedora", "PRETTY_NAME": "Fedora 43"}
TARGETS = """\
http://mirror.example/debian-security bookworm-security bookworm-security main
http://mirror.example/debian stable bookworm contrib
http://mirror.example/debian stable bookworm main
"""


@pytest.fixture(scope="module")
def setup_maniskill() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "setup_maniskill", ROOT / "scripts/setup_maniskill.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_os_release_is_read_with_and_without_quotes(setup_maniskill: ModuleType):
    text = '# comment\nID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n\n'
    assert setup_maniskill.os_release(text) == {
        "ID": "debian",
        "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)",
    }


@pytest.mark.parametrize(
    ("release", "packages", "root", "apt", "reason"),
    [
        (BOOKWORM, VULKAN, True, True, ""),
        (UBUNTU, ("libgl1",), True, True, ""),
        (BOOKWORM, VULKAN, False, True, "needs root"),
        (BOOKWORM, (), True, True, "no package"),
        (FEDORA, VULKAN, True, False, "Fedora 43 is neither Debian nor Ubuntu"),
        ({}, VULKAN, True, False, "neither Debian nor Ubuntu"),
    ],
)
def test_what_stands_in_the_way_is_said(
    setup_maniskill: ModuleType,
    release: dict[str, str],
    packages: tuple[str, ...],
    root: bool,
    apt: bool,
    reason: str,
):
    told = setup_maniskill.obstacle(release, packages, root=root, apt=apt)
    assert (reason in told) if reason else told == ""


def test_the_way_by_hand_fits_the_system(setup_maniskill: ModuleType):
    advice = setup_maniskill.advice
    assert "-t bookworm-backports mesa-vulkan-drivers libvulkan1" in advice(BOOKWORM, VULKAN)
    assert advice(BOOKWORM, ("libgl1",)) == "sudo apt-get install libgl1"
    assert advice(UBUNTU, VULKAN) == "sudo apt-get install mesa-vulkan-drivers libvulkan1"
    assert "lavapipe" in advice(FEDORA, VULKAN)
    assert "NVIDIA_DRIVER_CAPABILITIES" in advice(UBUNTU, ())


@pytest.mark.parametrize(
    ("usable", "libraries", "gpus", "packages"),
    [
        (True, [], False, ()),
        (False, [], False, VULKAN),
        (False, [], True, ()),
        (True, ["libGL.so.1"], True, ("libgl1",)),
        (False, ["libGL.so.1"], False, ("libgl1", *VULKAN)),
    ],
)
def test_what_is_missing_decides_the_packages(
    setup_maniskill: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    usable: bool,
    libraries: list[str],
    gpus: bool,
    packages: tuple[str, ...],
):
    check = Check(name="vulkan", ok=usable, detail="a device", fix="get one")
    monkeypatch.setattr(setup_maniskill.vulkan, "check", lambda _: check)
    monkeypatch.setattr(setup_maniskill.software, "missing_libraries", lambda: libraries)
    need = setup_maniskill.look(gpus=gpus)
    assert need.packages == packages
    assert need.met is (usable and not libraries)
    assert all(name in need.found for name in (*libraries, "a device"))


def test_the_mirror_is_the_one_that_the_machine_uses(setup_maniskill: ModuleType):
    assert setup_maniskill.mirror(TARGETS, "bookworm") == "http://mirror.example/debian"
    assert setup_maniskill.mirror(TARGETS, "trixie") == ""


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
    setup_maniskill: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = apt(tmp_path, monkeypatch)
    assert setup_maniskill.install(BOOKWORM, (*VULKAN, "libgl1"), dry_run=False)
    asked = log.read_text()
    assert "URIs: http://mirror.example/debian\n" in asked
    assert "Suites: bookworm bookworm-backports\n" in asked
    assert "Dir::Etc::sourceparts=/dev/null" in asked
    wanted = "install -y -q --no-install-recommends -t bookworm-backports mesa-vulkan-drivers"
    assert f"{wanted} libvulkan1 libgl1\n" in asked
    assert "Dir::State::lists=/" in asked


def test_other_releases_take_it_from_their_own_sources(
    setup_maniskill: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = apt(tmp_path, monkeypatch)
    assert setup_maniskill.install(UBUNTU, VULKAN, dry_run=True)
    asked = log.read_text()
    assert "sourcelist" not in asked
    assert "--no-install-recommends mesa-vulkan-drivers libvulkan1 -s\n" in asked


def test_an_apt_that_fails_is_told_and_ends_well(
    setup_maniskill: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    apt(tmp_path, monkeypatch, fails=True)
    need = setup_maniskill.Need(False, "no device", VULKAN)
    monkeypatch.setattr(setup_maniskill, "look", lambda gpus: need)
    monkeypatch.setattr(setup_maniskill, "obstacle", lambda *_, **__: "")
    monkeypatch.setattr(setup_maniskill, "os_release", lambda _: BOOKWORM)
    setup_maniskill.main([])
    err = capsys.readouterr().err
    assert "no device; apt-get could not install it." in err
    assert "What to do: enable bookworm-backports" in err


def test_a_machine_that_has_a_driver_is_left_alone(
    setup_maniskill: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    log = apt(tmp_path, monkeypatch)
    need = setup_maniskill.Need(True, "llvmpipe", ())
    monkeypatch.setattr(setup_maniskill, "look", lambda gpus: need)
    setup_maniskill.main([])
    assert capsys.readouterr().out == "maniskill: llvmpipe\n"
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
