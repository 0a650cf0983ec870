"""Plans for machines without GPUs, against arithmetic done by hand."""

from __future__ import annotations

import msgspec
import pytest

from ebrl.errors import InfeasibleError, PlanError
from ebrl.planner.compile import compile
from ebrl.planner.model.request import CompileOptions, parse_pin
from ebrl.planner.plan import Plan, encode
from ebrl.planner.proof.verify import verify
from tests.planner.model.cases import cpus, on_cores, pipeline


def body(plan: Plan) -> bytes:
    return encode(msgspec.structs.replace(plan, made=msgspec.structs.replace(plan.made, solve_s=0)))


def test_two_cores_are_shared_and_a_core_second_is_spent_once():
    plan = compile(pipeline(), cpus(local=True), on_cores())
    generate = plan.stage("generate")
    step = 1e-3 + generate.seconds / generate.batch + 0.2 / 1024
    assert plan.prediction.throughput_env_steps_per_s == pytest.approx(2 / step, rel=1e-5)
    assert [len(stage.replicas) for stage in plan.stages] == [2, 1, 1]
    assert sum(stage.cores for stage in plan.stages) == pytest.approx(2, rel=1e-6)
    assert {r.core_set for stage in plan.stages for r in stage.replicas} == {(0, 1)}
    assert plan.prediction.bottleneck == "simulate"
    assert "2 cores" in plan.prediction.why


def test_a_plan_for_this_machine_is_on_the_node_named_local():
    plan = compile(pipeline(), cpus(local=True), on_cores())
    assert {r.node for stage in plan.stages for r in stage.replicas} == {"local"}


def test_without_staleness_rollout_and_training_alternate_on_the_whole_machine():
    plan = compile(pipeline(max_staleness=0), cpus(local=True), on_cores())
    generate = plan.stage("generate")
    rollout = 2 / (1e-3 + generate.seconds / generate.batch)
    train = 1024 / 0.2
    expected = 1 / (1 / rollout + 1 / train)
    assert plan.schedule == "synchronous"
    assert plan.prediction.throughput_env_steps_per_s == pytest.approx(expected, rel=1e-5)
    assert plan.environments.groups == 1


def test_staleness_asked_for_overrides_the_graph():
    plan = compile(
        pipeline(max_staleness=0), cpus(local=True), on_cores(),
        options=CompileOptions(max_staleness=2),
    )  # fmt: skip
    assert (plan.schedule, plan.max_staleness) == ("asynchronous", 2)


def test_synchronous_environments_divide_the_segments_of_a_batch():
    plan = compile(pipeline(envs=(3, 50), max_staleness=0), cpus(local=True), on_cores())
    assert (1024 // 16) % plan.environments.count == 0


def test_environments_that_cannot_divide_a_batch_are_refused_with_the_arithmetic():
    with pytest.raises(InfeasibleError) as caught:
        compile(pipeline(envs=(3, 3), max_staleness=0), cpus(local=True), on_cores())
    assert caught.value.code == "environments-not-a-divisor"
    assert "1024 steps ÷ horizon 16" in str(caught.value)


def test_one_environment_cannot_hide_its_own_latency():
    plan = compile(pipeline(envs=(1, 1), batch=1024), cpus(cores=16), on_cores())
    expected = 1 / (1e-3 + 2e-4)
    assert plan.prediction.throughput_env_steps_per_s == pytest.approx(expected, rel=1e-5)
    assert plan.prediction.bottleneck == "environments"


def test_a_learner_of_one_rank_bounds_what_many_cores_may_reach():
    plan = compile(
        pipeline(envs=(1, 512)), cpus(cores=64), on_cores(train=0.2),
        options=CompileOptions(pins=(parse_pin("train.replicas=1"),)),
    )  # fmt: skip
    assert plan.prediction.throughput_env_steps_per_s == pytest.approx(1024 / 0.2, rel=1e-5)
    assert plan.prediction.bottleneck == "train"


def test_environments_and_policies_stay_on_their_node():
    plan = compile(pipeline(envs=(32, 1024)), cpus(2, 64), on_cores())
    assert verify(plan) == ()
    assert {r.node for r in plan.stage("simulate").replicas} == {"cpu64-0", "cpu64-1"}


def test_memory_limits_how_many_simulators_run():
    small = cpus(cores=64, ram=2 * 10**9)
    plan = compile(pipeline(envs=(32, 512)), small, on_cores())
    replicas = sum(len(stage.replicas) for stage in plan.stages)
    assert replicas * 100e6 <= 2e9
    assert (
        plan.prediction.throughput_env_steps_per_s
        < compile(
            pipeline(envs=(32, 512)), cpus(cores=64), on_cores()
        ).prediction.throughput_env_steps_per_s
    )


@pytest.mark.parametrize("eta", [0, 1])
def test_the_same_inputs_give_the_same_bytes(eta):
    made = [compile(pipeline(max_staleness=eta), cpus(cores=16), on_cores()) for _ in range(2)]
    assert made[0].digest() == made[1].digest()
    bodies = [msgspec.structs.replace(plan, made=made[0].made) for plan in made]
    assert encode(bodies[0]) == encode(bodies[1])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("train", "pin-malformed"),
        ("train.batch=x", "pin-malformed"),
        ("train.batch=-1", "pin-malformed"),
        ("train.batch=nan", "pin-malformed"),
        ("learn.batch=4", "pin-unknown-stage"),
        ("train.colour=4", "pin-unknown-key"),
        ("train.environments=4", "pin-unknown-key"),
        ("train.replicas=1.5", "pin-malformed"),
    ],
)
def test_a_wrong_pin_is_named(text, code):
    with pytest.raises(PlanError) as caught:
        compile(pipeline(), cpus(), on_cores(), options=CompileOptions(pins=(parse_pin(text),)))
    assert caught.value.code == code


def test_a_stage_that_nothing_is_known_about_is_named():
    points = tuple(p for p in on_cores() if p.stage != "generate")
    with pytest.raises(PlanError) as caught:
        compile(pipeline(), cpus(), points)
    assert caught.value.code == "profile-missing"
    assert "generate" in str(caught.value)
