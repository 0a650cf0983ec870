"""What is asked before anything starts."""

from __future__ import annotations

import resource

import msgspec
import pytest

from ebrl.errors import RunError
from ebrl.planner.plan import Plan
from ebrl.runtime import preflight
from tests.runtime.support import GRAPHS, plan_of


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(GRAPHS / "cartpole.py")


def codes(plan: Plan) -> list[str]:
    with pytest.raises(RunError) as caught:
        preflight.check(plan)
    assert all(each.hint for each in caught.value.diagnostics)
    return [each.code for each in caught.value.diagnostics]


def test_a_plan_for_this_machine_passes(plan: Plan) -> None:
    preflight.check(plan)


def test_a_fourth_stage_is_refused_before_anything_starts(plan: Plan) -> None:
    reward = msgspec.structs.replace(plan.stages[0], name="reward", kind="reward")
    assert codes(msgspec.structs.replace(plan, stages=(*plan.stages, reward))) == ["engine-stages"]


def test_reuse_is_refused_rather_than_ignored(plan: Plan) -> None:
    edges = tuple(
        msgspec.structs.replace(edge, reuse=2) if edge.target == "train.transition" else edge
        for edge in plan.program.edges
    )
    program = msgspec.structs.replace(plan.program, edges=edges)
    assert codes(msgspec.structs.replace(plan, program=program)) == ["engine-reuse"]


def on(plan: Plan, **changes: object) -> Plan:
    stages = tuple(
        msgspec.structs.replace(
            stage,
            replicas=tuple(
                msgspec.structs.replace(replica, node=f"n{replica.index}", **changes)
                for replica in stage.replicas
            ),
        )
        for stage in plan.stages
    )
    return msgspec.structs.replace(plan, stages=stages)


def test_a_plan_for_several_nodes_is_refused(plan: Plan) -> None:
    assert codes(on(plan)) == ["hardware-absent"]


def test_a_plan_for_more_gpus_than_there_are_is_refused(plan: Plan) -> None:
    assert "hardware-absent" in codes(on(plan, device=7))


def test_the_limit_of_the_control_group_counts_where_it_is_lower(tmp_path, monkeypatch) -> None:
    before = preflight.memory_available()
    (tmp_path / "memory.max").write_text("1000000000\n")
    (tmp_path / "memory.current").write_text("700000000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 100000000\n")
    monkeypatch.setattr(preflight, "GROUP", tmp_path)
    assert preflight.memory_free() == pytest.approx(0.4, abs=0.01)
    assert preflight.memory_available() == pytest.approx(400_000_000, rel=0.01)
    (tmp_path / "memory.max").write_text("max\n")
    assert preflight.memory_available() == pytest.approx(before, rel=0.2)


def test_too_few_file_handles_are_told_with_the_number_needed(plan: Plan, monkeypatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    assert codes(plan) == ["file-handles"]
