"""Commands start at once: what is heavy is imported where, and in the process where, it is used."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ebrl.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
GRAPH = ROOT / "graphs/cartpole_ppo.py"
HEAVY = ("torch", "ray", "mani_skill", "sapien", "gymnasium", "matplotlib", "tensorboard")

REPORT = """
import json, sys
from ebrl.cli.main import run
code = run(sys.argv[1:])
tops = sorted(name for name in sys.modules if "." not in name)
print(json.dumps({"code": code, "modules": tops}), file=sys.stderr)
"""


def loaded(*arguments: str) -> set[str]:
    """Top-level modules in memory after a command that succeeded."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *arguments], capture_output=True, text=True, check=True
    )
    told = json.loads(done.stderr.splitlines()[-1])
    assert told["code"] == 0, done.stderr.rpartition("\n{")[0]
    return set(told["modules"])


def test_check_starts_without_anything_heavy():
    assert not loaded("check", str(GRAPH)) & set(HEAVY)


def test_plan_starts_without_torch_or_ray(tmp_path: Path):
    plan = tmp_path / "plan.json"
    graph = str(ROOT / "graphs/pi0_metaworld.py")
    modules = loaded("plan", graph, "--cluster", "a100x8", "-o", str(plan))
    assert plan.exists()
    assert not modules & {"torch", "ray", "mani_skill", "sapien", "gymnasium"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_starts_without_anything_heavy(command: str):
    assert not loaded(command, "--help") & {*HEAVY, "pulp", "networkx", "rich", "jinja2"}


def test_declaring_stages_imports_neither_torch_nor_a_simulator():
    code = "import sys, ebrl.stages; print(*{m for m in sys.modules if '.' not in m})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & set(HEAVY)


def test_importing_ebrl_takes_less_than_a_third_of_a_second_of_cpu():
    def cpu_s(code: str) -> float:
        def children_s() -> float:
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return used.ru_utime + used.ru_stime

        before = children_s()
        subprocess.run([sys.executable, "-c", code], check=True)
        return children_s() - before

    cpu_s("import ebrl")  # compiles to bytecode, once
    codes = ("pass", "import ebrl", "import numpy, msgspec")
    rounds = [[cpu_s(code) for code in codes] for _ in range(3)]
    bare, ours, foundations = map(min, zip(*rounds, strict=True))
    # On a slow or busy machine: no more than twice what its two foundations take.
    assert ours - bare < max(0.3, 2 * (foundations - bare))
