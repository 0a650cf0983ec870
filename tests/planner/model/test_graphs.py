"""The example graphs on real devices: every plan verifies, every refusal has a named reason.

`python -m benchmarks.planner --sweep` does this for every device of the catalogue.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from ebrl.errors import PlanError
from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.frontend.program import Program
from ebrl.planner.cluster import parse
from ebrl.planner.compile import compile
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.proof.verify import verify
from ebrl.planner.shipped import shipped

ROOT = Path(__file__).resolve().parents[3]
WORKLOADS = ("openvla_oft_maniskill", "pi05_libero", "pi0_metaworld", "gr00t_robocasa")


@functools.cache
def workload(name: str) -> Program:
    return check(load_graph(ROOT / f"graphs/{name}.py"))


@pytest.mark.parametrize("cluster", ["t4x1", "l40sx1", "h100x4"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_graph_is_planned_or_refused_with_a_reason(name, cluster):
    program = workload(name)
    try:
        plan = compile(
            program, parse(cluster), shipped(program), options=CompileOptions(alternatives=False)
        )
    except PlanError as error:
        refusal = error.diagnostics[0]
    else:
        assert verify(plan) == ()
        assert plan.prediction.throughput_env_steps_per_s > 0
        return
    assert refusal.code in ("too-large", "infeasible")
    assert refusal.hint


@pytest.mark.parametrize("name", ["openvla_oft_maniskill", "gr00t_robocasa"])
def test_nodes_that_differ_each_keep_their_own_pace(name):
    program = workload(name)
    plan = compile(
        program, parse("8*(h100x8)"), shipped(program), options=CompileOptions(alternatives=False)
    )
    assert verify(plan) == ()
    assert len({r.node for stage in plan.stages for r in stage.replicas}) > 1


def test_a_mix_of_device_classes_is_planned_as_one():
    program = workload("pi05_libero")
    plan = compile(
        program, parse("1*(a100x8)+2*(l40sx4)+1*(cpu64)"), shipped(program),
        options=CompileOptions(alternatives=False),
    )  # fmt: skip
    assert verify(plan) == ()
    alone = compile(
        program, parse("a100x8"), shipped(program), options=CompileOptions(alternatives=False)
    )
    assert plan.prediction.throughput_env_steps_per_s > alone.prediction.throughput_env_steps_per_s
