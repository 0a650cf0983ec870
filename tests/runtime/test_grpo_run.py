"""GRPO in a real run: a sparse task is learnt from groups of episodes that began alike."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.support import GRAPHS, plan_of
from tests.runtime.test_run import balanced, run, write


def test_a_sparse_success_is_learnt_without_a_critic(tmp_path: Path) -> None:
    path = write(plan_of(GRAPHS / "reach.py"), tmp_path)
    told = run(path, tmp_path / "run", "--steps", "45000", "--seed", "1")
    assert told["first"]["success_once"] < 0.3
    assert told["success_once"] > 0.6
    assert balanced(told)
