"""`ebrl doctor` on the machine that runs the tests."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

from ebrl.cli.main import run
from ebrl.runtime import doctor
from ebrl.runtime.machine.check import Check


def test_json_has_the_keys_of_the_contract(capsys: pytest.CaptureFixture[str]):
    code = run(["doctor", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert code == (0 if told["ok"] else 1)
    assert {"name", "ok", "detail", "fix"} <= set(told["checks"][0])
    names = [each["name"] for each in told["checks"]]
    assert len(set(names)) == len(names)
    assert {"python", "torch", "gpu", "mps", "green contexts", "vulkan"} <= set(names)
    assert {"shared memory", "eventfd", "file handles", "cores", "memory"} <= set(names)
    assert {"ray", "solver", "simulators", "disk"} <= set(names)
    assert all(each["ok"] or each["fix"] for each in told["checks"])


def test_the_table_shows_each_gap_with_its_fix(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    checks = (
        Check(name="torch", ok=True, detail="2.13.0 (CPU build)", required=True),
        Check(name="ray", ok=False, detail="[not] installed", fix="pip install ray"),
        Check(name="eventfd", ok=False, detail="refused", fix="run on Linux", required=True),
    )
    monkeypatch.setattr(doctor, "examine", lambda: checks)
    assert run(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["yes", "torch", "2.13.0", "(CPU", "build)"]
    assert lines[1].split() == ["no", "ray", "[not]", "installed"]
    assert lines[2].split() == ["fix:", "pip", "install", "ray"]
    assert lines[-1] == "Nothing runs here without: eventfd."


def test_it_is_quick_and_imports_nothing_heavy():
    code = (
        "import sys; from ebrl.runtime.doctor import examine; examine();"
        "print(*({'torch', 'ray', 'pulp', 'gymnasium', 'mani_skill', 'sapien'} & set(sys.modules)))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.split() == []
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2
