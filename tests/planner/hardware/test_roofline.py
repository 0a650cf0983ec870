"""The analytic stage time: its shape, and whether it is of the right size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.frontend.program import Work
from ebrl.planner import devices, roofline
from ebrl.planner.hardware import DeviceKind
from ebrl.stages.models import MODELS
from ebrl.stages.workloads import VLA, VLAPPO, Libero, ManiSkillGPU

A100, H100 = devices.find("a100"), devices.find("h100")
RTX4090 = devices.find("rtx4090")

WORKS = st.builds(
    Work,
    flops=st.floats(0, 1e14),
    fp32_flops=st.floats(0, 1e12),
    activation_bytes=st.floats(0, 1e9),
    weight_bytes=st.floats(0, 2e10),
    weight_reads=st.floats(1, 10),
    core_seconds=st.floats(0, 0.1),
    kernel_s=st.floats(1e-6, 0.3),
)
KINDS = st.sampled_from(devices.catalogue())


@given(WORKS, KINDS)
def test_time_grows_with_the_batch_and_falls_with_the_quota(work: Work, kind: DeviceKind) -> None:
    q, b = np.array(kind.quotas())[:, None], np.array([1, 2, 7, 64, 500])[None, :]
    time = roofline.seconds(work, kind, q, b)
    assert (np.diff(time, axis=1) >= 0).all()
    assert (np.diff(time, axis=0) <= 1e-12 * time[1:]).all()


@given(WORKS, KINDS, st.integers(1, 256))
def test_throughput_is_concave_in_the_quota(work: Work, kind: DeviceKind, batch: int) -> None:
    q = np.arange(1, kind.sms + 1)
    rate = batch / roofline.seconds(work, kind, q, batch)
    assert (np.diff(rate, 2) <= 1e-9 * rate[2:]).all()


@given(WORKS, st.integers(1, 64))
def test_on_cores_more_cores_are_never_slower_and_a_share_of_one_costs_in_proportion(
    work: Work, batch: int
) -> None:
    c = np.array([0.25, 0.5, 1, 2, 4, 64])
    time = roofline.seconds(work, None, c, batch)
    assert (np.diff(time) <= 1e-12 * time[1:]).all()
    assert time[0] == pytest.approx(4 * time[2])


def test_environments_on_cores_do_not_use_more_cores_than_there_are_of_them() -> None:
    work = Work(core_seconds=0.02)
    assert roofline.seconds(work, None, 8, 4) == pytest.approx(0.02)
    assert roofline.seconds(work, None, 8, 16) == pytest.approx(0.04)


def test_a_compute_bound_batch_takes_its_flops_over_what_the_device_reaches() -> None:
    work = Work(flops=1e13)
    expected = 8 * 1e13 / (312e12 * roofline.FLOPS_REACHED)
    assert roofline.seconds(work, A100, 108, 8) == pytest.approx(expected)
    assert roofline.seconds(work, A100, 54, 8) == pytest.approx(2 * expected)


def test_a_memory_bound_batch_takes_its_reads_over_the_bandwidth() -> None:
    work = Work(weight_bytes=15e9, weight_reads=7)
    expected = 7 * 15e9 / (2039e9 * roofline.BANDWIDTH_REACHED)
    assert roofline.seconds(work, A100, [108, 54], 1) == pytest.approx([expected, expected])
    assert roofline.seconds(work, A100, 27, 1) == pytest.approx(2 * expected)


def test_rendering_is_timed_by_the_rate_that_renders() -> None:
    work = Work(fp32_flops=1e10)
    slow, fast = roofline.seconds(work, A100, 108, 64), roofline.seconds(work, RTX4090, 128, 64)
    assert slow / fast == pytest.approx(82.6 / 19.5)


def test_memory_counts_weights_state_scratch_and_each_item() -> None:
    work = Work(weight_bytes=1, state_bytes=2, scratch_bytes=4, activation_bytes=8, ram_bytes=16)
    assert roofline.memory(work, A100, [1, 2]).tolist() == [15, 23]
    assert roofline.memory(work, None, 1) == 31


def test_points_lie_on_the_devices_grid_and_are_estimated() -> None:
    points = roofline.points("act", Work(flops=1e12, note="a note"), H100, (1, 8))
    assert {point.sms for point in points} == set(H100.quotas())
    assert {point.source for point in points} == {"estimated"}
    assert {point.origin for point in points} == {"roofline: a note"}
    (one,) = roofline.points("sim", Work(core_seconds=0.02, ram_bytes=5), None, (4,), (2.0,))
    assert (one.device, one.sms, one.cores, one.bytes) == ("cpu", 0, 2.0, 5)
    assert one.median_s == pytest.approx(0.04)


def answer(model: str, kind: DeviceKind, chunk: int) -> float:
    return float(roofline.seconds(VLA(model, chunk=chunk).work(), kind, kind.sms, 1))


@pytest.mark.parametrize(
    ("model", "kind", "chunk", "published"),
    [
        ("openvla", A100, 1, 0.240),  # arXiv 2502.19645
        ("openvla-oft", A100, 8, 0.073),  # the same
        ("openvla", devices.find("a6000"), 1, 0.32),  # openvla issue 276
        ("pi05", RTX4090, 10, 0.081),  # vllm-omni issue 6950, JAX
        ("gr00t", H100, 16, 0.156),  # NVIDIA/Isaac-GR00T, eager
    ],
)
def test_an_answer_takes_about_as_long_as_was_published(
    model: str, kind: DeviceKind, chunk: int, published: float
) -> None:
    assert 0.6 < answer(model, kind, chunk) / published < 1.6


def test_openvla_trains_at_six_flop_a_parameter_and_token() -> None:
    tokens = 256 + 30 + 7 * 8
    assert MODELS["openvla-oft"].training_flops(8) == pytest.approx(6 * 7.5e9 * tokens)
    assert MODELS["openvla-oft"].scoring_flops(8) == pytest.approx(2 * 7.5e9 * tokens)


def test_an_update_costs_each_decision_once_for_all_the_steps_of_its_chunk() -> None:
    one = VLAPPO("pi05", chunk=5, horizon=8, batch=400, micro_batch=8).work()
    two = VLAPPO("pi05", chunk=5, horizon=8, batch=400, micro_batch=8, epochs=2).work()
    model = MODELS["pi05"]
    assert 5 * one.flops == pytest.approx(model.training_flops(5) + model.scoring_flops(5))
    assert 5 * (two.flops - one.flops) == pytest.approx(model.training_flops(5))
    assert one.state_bytes == 16 * 0.3e9
    assert one.update_bytes < one.weight_bytes


def test_gpu_simulation_meets_the_published_run_it_was_fitted_to() -> None:
    work = ManiSkillGPU("any", max_steps=1).work()
    assert roofline.seconds(work, RTX4090, 128, 512) == pytest.approx(0.075957, rel=0.05)
    assert roofline.seconds(work, RTX4090, 128, 4) == pytest.approx(0.003005, rel=0.05)
    assert roofline.memory(work, RTX4090, 512) == pytest.approx(17721950208, rel=0.05)


def test_a_libero_step_takes_twenty_milliseconds_of_a_core() -> None:
    work = Libero("libero_spatial", max_steps=240).work()
    assert roofline.seconds(work, None, 1, 1) == pytest.approx((170 - 160) / 500)
