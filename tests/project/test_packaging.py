"""The package as others get it: what it needs, what is in it, and what must not be."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import ebrl

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements(*extras: str) -> set[str]:
    """Distribution names, of the core and of extras, extras of extras included."""
    optional = PROJECT["optional-dependencies"]
    found = set()
    for line in [*PROJECT["dependencies"], *(each for name in extras for each in optional[name])]:
        name = re.match(r"[A-Za-z0-9_.-]+", line)
        assert name is not None, line
        inner = re.match(r"ebrl\[([^]]+)\]", line)
        found |= requirements(*inner.group(1).split(",")) if inner else {name.group().lower()}
    return found


def tracked() -> list[Path]:
    """Files under version control, or everything where there is none (an unpacked archive)."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return [each for each in ROOT.rglob("*") if each.is_file() and ".venv" not in each.parts]
    return [ROOT / each for each in done.stdout.split("\0") if each and (ROOT / each).is_file()]


def text_files() -> list[tuple[Path, str]]:
    found = []
    for file in tracked():
        try:
            found.append((file.relative_to(ROOT), file.read_text()))
        except UnicodeDecodeError:
            continue  # pictures
    return found


def test_everything_a_user_may_need_is_a_dependency_or_an_extra():
    core = requirements()
    assert {"torch", "networkx", "pulp", "jinja2", "nvidia-ml-py", "gymnasium"} <= core
    assert not {"mani-skill", "ray", "pytest"} & core
    assert {"mani-skill", "ray", "pytest"} <= requirements("all")
    everything = requirements(*PROJECT["optional-dependencies"])
    assert requirements("all") == everything


def test_every_dependency_of_the_core_is_installed_here():
    for name in requirements():
        assert importlib.metadata.version(name)


def test_the_version_is_written_once():
    assert "version" in PROJECT["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", ebrl.__version__)
    assert f'__version__ = "{ebrl.__version__}"' in (ROOT / "ebrl/__init__.py").read_text()


def test_a_wheel_holds_code_data_and_templates(tmp_path: Path):
    build = (
        "from hatchling.builders.wheel import WheelBuilder; import sys;"
        "print(next(WheelBuilder(sys.argv[1]).build(directory=sys.argv[2])))"
    )
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    done = subprocess.run(
        [sys.executable, "-c", build, str(ROOT), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    with zipfile.ZipFile(done.stdout.split()[-1]) as wheel:
        inside = set(wheel.namelist())
        points = next(name for name in inside if name.endswith("entry_points.txt"))
        assert "ebrl = ebrl.cli.main:main" in wheel.read(points).decode()
    sources = {
        str(each.relative_to(ROOT))
        for each in tracked()
        if each.is_relative_to(ROOT / "ebrl") and each.name != ".gitkeep"
    }
    assert sources <= inside
    assert not {name for name in inside if name.startswith(("tests/", "graphs/", "benchmarks/"))}
    assert any(name.endswith("licenses/LICENSE") for name in inside)


def test_no_file_names_a_registry_or_somebodys_machine():
    # Assembled, so that this file does not name them either.
    hosts = ["pypi" + ".org", "python" + "hosted.org", "deb" + "ian.org", "ubuntu" + ".com/ubuntu"]
    hosts += ["download.py" + "torch.org", "npmjs" + ".org", "registry.npm" + "js"]
    places = [
        "/tmp/" + "boot",
        "/work/" + "main",
        "/work/" + "shared",
        "/root" + "/",
        "/opt/" + "wheels",
    ]
    found = [
        f"{file}: {word}"
        for file, text in text_files()
        for word in (*hosts, *places)
        if word in text.lower()
    ]
    assert found == []


# A file over the limit stands here with the reason why it is still one idea.
LONG: dict[str, str] = {}
LIMIT = 350


def test_files_stay_short_enough_to_be_one_idea():
    lengths = {str(file): text.count("\n") for file, text in text_files() if file.suffix == ".py"}
    long = {name: lines for name, lines in lengths.items() if lines > LIMIT and name not in LONG}
    assert long == {}
    assert set(LONG) <= {name for name, lines in lengths.items() if lines > LIMIT}, "no longer long"


def test_every_module_opens_with_its_idea():
    silent = [
        str(file)
        for file, text in text_files()
        if file.parts[0] == "ebrl"
        and file.suffix == ".py"
        and text.strip()
        and not text.lstrip().startswith(('"""', 'r"""'))
    ]
    assert silent == []


def test_the_programs_of_the_repository_can_be_run():
    for name in (".ci/run", "scripts/find_python.sh"):
        assert (ROOT / name).stat().st_mode & 0o111, name
        assert (ROOT / name).read_text().startswith("#!/usr/bin/env bash\n")
        subprocess.run(["bash", "-n", str(ROOT / name)], check=True)
