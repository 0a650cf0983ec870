"""The graphs of real workloads: readable, planned with nothing of them installed."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

from ebrl.errors import RunError
from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.stages.workloads import Libero, ManiSkillGPU, MetaWorld, RoboCasa

ROOT = Path(__file__).resolve().parents[3]
GRAPHS = ("openvla_oft_maniskill", "pi05_libero", "pi0_metaworld", "gr00t_robocasa")


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_short_enough_to_read(name: str) -> None:
    lines = (ROOT / "graphs" / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert 20 <= len(lines) <= 40


@pytest.mark.parametrize(
    ("name", "chunk", "batch", "environments"),
    [
        ("openvla_oft_maniskill", 8, 640 * 8, 128),
        ("pi05_libero", 5, 2048 * 5, 64),
        ("pi0_metaworld", 5, 2048 * 5, 64),
        ("gr00t_robocasa", 16, 512 * 16, 64),
    ],
)
def test_a_graph_has_the_published_shape(
    name: str, chunk: int, batch: int, environments: int
) -> None:
    program = check(load_graph(ROOT / "graphs" / f"{name}.py"))
    assert program.environment is not None
    assert program.training is not None
    assert program.environment.action.chunk == chunk
    assert program.training.batch == batch
    assert program.environment.min_count <= environments <= program.environment.max_count
    assert all(stage.work is not None and stage.profile_key for stage in program.stages)


def test_checking_them_needs_neither_torch_nor_a_simulator(python: str) -> None:
    code = textwrap.dedent(
        f"""
        import sys

        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {{"torch", "gymnasium", "mani_skill", "mujoco", "ray"}}:
                    raise ImportError(name)

        sys.meta_path.insert(0, Absent())
        from ebrl.frontend.check import check
        from ebrl.frontend.load import load_graph

        for name in {GRAPHS!r}:
            check(load_graph(f"graphs/{{name}}.py"))
        """
    )
    done = subprocess.run(
        [python, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", [ManiSkillGPU, Libero, MetaWorld, RoboCasa])
def test_making_an_environment_of_a_declaration_says_what_to_do(kind: type[Libero]) -> None:
    with pytest.raises(RunError, match="declared for planning") as caught:
        kind("task", max_steps=10).make()
    assert "make()" in caught.value.diagnostics[0].hint
