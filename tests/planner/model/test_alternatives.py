"""What is told beside a plan: other splits, the other schedule, what would be saved."""

from __future__ import annotations

import msgspec
import pytest

from ebrl.errors import InfeasibleError
from ebrl.planner.cluster import parse
from ebrl.planner.compile import compile
from ebrl.planner.hardware import Cluster
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.plan import Alternative, Plan
from ebrl.planner.telling.explain import uses, worth, worth_in_words
from tests.planner.model import cases
from tests.planner.model.test_properties import gpu_cluster, gpu_plan, gpu_points


def others(plan: Plan) -> dict[str, Alternative]:
    return {each.name: each for each in plan.alternatives}


def test_an_even_split_of_two_cores_gives_each_stage_two_thirds_of_one():
    plan = compile(cases.pipeline(), cases.cpus(local=True), cases.on_cores())
    found = others(plan)
    rate = found["even split"].throughput_env_steps_per_s
    assert rate == pytest.approx(2 / 3 / 1e-3, rel=1e-4)  # the simulator is the slowest
    assert found["whole cores"].throughput_env_steps_per_s is None  # three stages, two cores
    assert "59% less" in found["even split"].why


def test_four_whole_cores_are_two_for_the_simulator_and_one_for_each_other_stage():
    plan = compile(cases.pipeline(), cases.cpus(cores=4), cases.on_cores())
    rate = others(plan)["whole cores"].throughput_env_steps_per_s
    assert rate == pytest.approx(2 / 1e-3, rel=1e-4)


def test_the_other_schedule_is_what_planning_it_gives_at_most():
    program, points = cases.pipeline(envs=(8, 64)), cases.on_cores()
    plan = compile(program, cases.cpus(cores=64), points)
    options = CompileOptions(max_staleness=0, alternatives=False)
    turns = compile(program, cases.cpus(cores=64), points, options=options).prediction
    told = others(plan)["alternating"].throughput_env_steps_per_s
    assert told == pytest.approx(turns.throughput_env_steps_per_s, rel=2e-3)
    assert "alternating" not in others(
        compile(cases.pipeline(max_staleness=0), cases.cpus(), points)
    )


def test_in_turn_no_device_is_busier_than_all_the_time():
    plan = gpu_plan(1, 1, max_staleness=0)
    assert all(use.share <= 1 + 1e-6 for use in uses(plan))
    assert "rollout and training alternate" in plan.prediction.why


def priced(cheap: float, dear: float) -> Cluster:
    """One node of each price, else alike."""
    nodes = tuple(
        msgspec.structs.replace(gpu_cluster(1, 2).nodes[0], name=name, price_per_hour=price)
        for name, price in (("cheap", cheap), ("dear", dear))
    )
    return Cluster(text="cheap and dear", nodes=nodes)


def test_the_least_cost_is_a_sum_of_prices_of_nodes_and_explained_as_one():
    program = cases.pipeline(
        envs=(8, 32), runs_on={"train": ("gpu",), "generate": ("gpu",), "simulate": ("gpu",)}
    )
    options = CompileOptions(objective="cost", at_least=1.0, alternatives=False)
    plan = compile(program, priced(3.0, 7.0), gpu_points(), options=options)
    said = plan.prediction
    assert (said.objective_value, said.objective_bound) == (3.0, 3.0)
    assert said.status == "optimal"
    assert worth_in_words(plan) == "3 an hour"
    assert worth(plan) == -3.0


def test_stages_that_fit_alone_and_not_together_are_told_with_their_sum():
    program = cases.pipeline(runs_on={"generate": ("gpu",), "train": ("gpu",)})
    sizes = {"generate": 9, "train": 8}
    points = (
        *(p for p in cases.on_cores() if p.stage == "simulate"),
        *(
            cases.point(stage, batch, 0.1, device="t4", sms=40, size=size * cases.GB)
            for stage, size in sizes.items()
            for batch in (1, 1024)
        ),
    )
    with pytest.raises(InfeasibleError) as caught:
        compile(program, parse("t4x1"), points)
    assert caught.value.code == "too-large"
    assert "9.5 GB generate + 8.5 GB train" in str(caught.value)
    assert "make 18 GB, and 1 × t4 has 16.1 GB" in str(caught.value)
