"""What has to hold whatever the numbers are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ebrl.planner.compile import compile
from ebrl.planner.hardware import Cluster
from ebrl.planner.model import search
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.model.space import Space
from ebrl.planner.plan import Plan, encode
from ebrl.planner.profile import Point
from ebrl.planner.proof.verify import verify
from tests.planner.model import cases, worlds
from tests.planner.model.test_optimum import optimum

FEW = settings(max_examples=8, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)
QUICK = CompileOptions(alternatives=False)


@FEW
@given(seeds)
def test_no_plan_is_better_than_the_relaxation(seed):
    space = worlds.space(seed, options=3)
    relaxed = search.relax(space)
    value, _ = optimum(space)
    assert value <= relaxed.bound * (1 + 1e-6)


def with_node(space: Space, **changes: object) -> Space:
    (each,) = space.classes
    node = msgspec.structs.replace(each.node, **changes)
    mode = space.mode
    assert mode is not None
    return replace(
        space,
        classes=(replace(each, node=node),),
        mode=replace(mode, ranks=max(mode.ranks, node.devices)),
    )


@FEW
@given(seeds)
def test_one_more_device_never_lowers_throughput(seed):
    space = worlds.space(seed, devices=2, options=3)
    assert optimum(with_node(space, devices=3))[0] >= optimum(space)[0] * (1 - 1e-6)


@FEW
@given(seeds)
def test_more_memory_never_lowers_throughput(seed):
    space = worlds.space(seed, devices=2, options=3)
    device = space.classes[0].node.device
    assert device is not None
    larger = msgspec.structs.replace(device, memory_bytes=device.memory_bytes + 3 * cases.GB)
    assert optimum(with_node(space, device=larger))[0] >= optimum(space)[0] * (1 - 1e-6)


@FEW
@given(seeds, st.floats(0.1, 10.0))
def test_times_k_times_as_long_give_a_kth_of_the_throughput(seed, factor):
    space = worlds.space(seed, devices=2, options=3)
    (each,) = space.classes
    assert space.mode is not None
    slower = replace(
        space,
        classes=(
            replace(
                each,
                on_device=tuple(replace(o, seconds=o.seconds * factor) for o in each.on_device),
            ),
        ),
        mode=replace(space.mode, overhead_s=space.mode.overhead_s * factor),
    )
    assert optimum(slower)[0] * factor == pytest.approx(optimum(space)[0], rel=1e-5, abs=1e-9)


def rate(plan: Plan) -> float:
    return plan.prediction.throughput_env_steps_per_s


times = st.floats(1e-4, 1e-2)


@FEW
@given(times, times, st.floats(0.01, 1.0), st.integers(1, 24))
def test_one_more_core_never_lowers_throughput(simulate, generate, train, cores):
    points = cases.on_cores(simulate, ((1, generate), (32, 8 * generate)), train)
    program = cases.pipeline(envs=(8, 64))
    fewer, more = (
        compile(program, cases.cpus(cores=n), points, options=QUICK) for n in (cores, cores + 1)
    )
    assert rate(more) >= rate(fewer) * (1 - 1e-5)


@FEW
@given(st.permutations(["anna", "berta", "carla"]))
def test_the_names_of_stages_change_nothing(names):
    plans = [
        compile(cases.pipeline(names=tuple(n)), cases.cpus(), cases.on_cores(), options=QUICK)
        for n in (names, ["simulate", "generate", "train"])
    ]
    assert rate(plans[0]) == pytest.approx(rate(plans[1]), rel=1e-9)
    assert [len(s.replicas) for s in plans[0].stages] == [len(s.replicas) for s in plans[1].stages]


def gpu_cluster(count: int, devices: int, cores: int = 32) -> Cluster:
    node = msgspec.structs.replace(
        cases.cpus(count, cores).nodes[0],
        name="devx",
        device=cases.device(sms=16, step=6),
        devices=devices,
    )
    return Cluster(text=f"{count}*(devx{devices})", nodes=(node,))


def gpu_points(scale: float = 1.0) -> tuple[Point, ...]:
    """Three stages on split SMs: small batches leave most of a device idle."""
    grid = [(q, b) for q in (1, 7, 13, 16) for b in (1, 8, 64)]
    return tuple(
        cases.point(
            stage,
            b * factor,
            scale * (start + work * b / min(q, 4 * b)),
            device="dev",
            sms=q,
            size=(2 + b // 8) * cases.GB,
        )
        for stage, factor, start, work in (
            ("simulate", 1, 2e-3, 1e-3),
            ("generate", 1, 5e-3, 4e-3),
            ("train", 16, 1e-2, 2e-2),
        )
        for q, b in grid
    )


def gpu_plan(count: int, devices: int, **kinds: Any) -> Plan:
    program = cases.pipeline(
        envs=(8, 32), batch=1024, runs_on={"train": ("gpu",), "generate": ("gpu",)}, **kinds
    )
    return compile(program, gpu_cluster(count, devices), gpu_points(), options=QUICK)


@pytest.mark.parametrize(("count", "devices"), [(1, 1), (1, 3), (2, 2), (16, 8)])
@pytest.mark.parametrize("eta", [0, 1])
def test_plans_for_devices_verify(count, devices, eta):
    plan = gpu_plan(count, devices, max_staleness=eta)
    assert verify(plan) == ()
    assert rate(plan) > 0


def test_a_plan_for_devices_is_byte_identical_each_time():
    first, second = gpu_plan(2, 2), gpu_plan(2, 2)
    assert encode(msgspec.structs.replace(second, made=first.made)) == encode(first)


def test_a_reward_model_beside_the_loop_is_planned_by_its_rate():
    from fractions import Fraction

    program = cases.pipeline(envs=(8, 64), reward=Fraction(1, 4))
    points = (*cases.on_cores(), cases.point("reward", 1, 4e-3))
    plan = compile(program, cases.cpus(cores=16), points, options=QUICK)
    assert verify(plan) == ()
    reward = plan.stage("reward")
    assert sum(r.busy for r in reward.replicas) / 4e-3 >= rate(plan) / 4 * (1 - 1e-6)


def test_chunks_of_actions_spare_the_policy():
    one, five = (
        compile(
            cases.pipeline(chunk=k), cases.cpus(), cases.on_cores(generate=((1, 5e-3), (32, 0.1))),
            options=QUICK,
        )
        for k in (1, 5)
    )  # fmt: skip
    assert rate(five) > 1.5 * rate(one)


@pytest.mark.parametrize("objective", ["devices", "cost"])
def test_less_is_enough_for_less(objective):
    program = cases.pipeline(
        envs=(8, 32), runs_on={"train": ("gpu",), "generate": ("gpu",), "simulate": ("gpu",)}
    )
    cluster = gpu_cluster(4, 2)
    nodes = tuple(msgspec.structs.replace(n, price_per_hour=3.0) for n in cluster.nodes)
    cluster = msgspec.structs.replace(cluster, nodes=nodes)
    most = rate(compile(program, cluster, gpu_points(), options=QUICK))
    wanted = most / 4
    options = CompileOptions(objective=objective, at_least=wanted, alternatives=False)
    plan = compile(program, cluster, gpu_points(), options=options)
    assert verify(plan) == ()
    assert rate(plan) >= wanted
    used = {(r.node, r.device) for s in plan.stages for r in s.replicas if r.device is not None}
    assert len(used) < 8
    assert plan.prediction.objective_value is not None
    spent = {"devices": len(used), "cost": 3.0 * len({node for node, _ in used})}[objective]
    assert plan.prediction.objective_value == pytest.approx(spent)
