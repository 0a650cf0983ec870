"""A run that planned again and is resumed goes on with the plan it had gone over to."""

from __future__ import annotations

from pathlib import Path

from ebrl.planner.plan import encode, read
from ebrl.runtime import checkpoint
from ebrl.runtime.resume import plan_in_force
from tests.runtime.support import GRAPHS, plan_of
from tests.runtime.test_checkpoint import state, tensors
from tests.runtime.test_run import run, write

GRAPH = GRAPHS / "cartpole.py"


def test_the_newest_plan_that_was_taken_is_found_and_only_where_the_run_began_with_this_one(
    tmp_path: Path,
) -> None:
    given, later = plan_of(GRAPH), plan_of(GRAPH, groups=1)
    folder = tmp_path / "run"
    checkpoint.save(folder / "checkpoint", tensors(), state(3))
    write(given, folder)
    assert plan_in_force(folder, given) is None
    (folder / "plans").mkdir()
    for name, plan in (("0001", given), ("0002", later), ("0003-considered", given)):
        (folder / "plans" / f"{name}.json").write_bytes(encode(plan))
    for path in (folder, folder / "checkpoint/v00000003"):
        found = plan_in_force(path, given)
        assert found is not None
        assert found[0].name == "0002.json"
        assert found[1].digest() == later.digest()
    assert plan_in_force(folder, plan_of(GRAPH, simulators=1)) is None


def test_a_resumed_run_goes_on_with_it_and_the_next_would_too(tmp_path: Path) -> None:
    given, later = plan_of(GRAPH), plan_of(GRAPH, groups=1)
    path = write(given, tmp_path)
    run(path, tmp_path / "a", "--steps", "600")
    (tmp_path / "a" / "plans" / "0002.json").write_bytes(encode(later))
    run(path, tmp_path / "b", "--steps", "1200", "--resume", str(tmp_path / "a"))
    assert read(tmp_path / "b" / "plan.json").digest() == later.digest()
    _, saved = checkpoint.load(tmp_path / "b")
    assert saved.plan_sha256 == later.digest()
    found = plan_in_force(tmp_path / "b", given)
    assert found is not None
    assert found[1].digest() == later.digest()
