"""Stage time between points, beyond them, and on other devices."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ebrl.errors import PlanError
from ebrl.frontend.program import StageProgram, Work
from ebrl.planner import devices, roofline
from ebrl.planner.hardware import DeviceKind
from ebrl.planner.interpolate import StageTime, carried, for_stage, transfer
from ebrl.planner.profile import STANDING, Point
from ebrl.planner.shipped import figures

A100 = devices.find("a100")
WORK = Work(flops=1e12, weight_bytes=1e10, activation_bytes=1e8, kernel_s=0.01)


def point(sms: int, batch: int, seconds: float, **changed: Any) -> Point:
    base: dict[str, Any] = {
        "stage": "act",
        "device": "a100" if sms else "cpu",
        "sms": sms,
        "cores": 1.0,
        "batch": batch,
        "median_s": seconds,
        "p95_s": 1.2 * seconds,
        "bytes": 1000 * batch,
        "source": "measured",
    }
    return Point(**{**base, **changed})


def cpu(cores: float, batch: int, seconds: float, **changed: Any) -> Point:
    return point(0, batch, seconds, **{"cores": cores, **changed})


@st.composite
def grids(draw: st.DrawFn, monotone: bool = True) -> list[Point]:
    """Points over a grid: any, or such that no larger quota or smaller batch is slower."""
    quotas = draw(
        st.lists(st.sampled_from([8, 16, 32, 54, 80, 108]), min_size=1, max_size=4, unique=True)
    )
    batches = draw(
        st.lists(st.sampled_from([1, 2, 4, 8, 32, 64]), min_size=1, max_size=4, unique=True)
    )
    shape = (len(quotas), len(batches))
    values = draw(
        st.lists(st.floats(1.0, 4.0), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])
    )
    times: Any = 1e-3 * np.array(values).reshape(shape)
    if monotone:
        times = 1e-3 * np.cumprod(1e3 * times, axis=1)
        times = np.flip(np.maximum.accumulate(np.flip(times, axis=0), axis=0), axis=0)
    sources = draw(
        st.lists(st.sampled_from(sorted(STANDING)), min_size=times.size, max_size=times.size)
    )
    return [
        point(q, b, float(times[i, j]), source=sources[i * shape[1] + j])
        for i, q in enumerate(sorted(quotas))
        for j, b in enumerate(sorted(batches))
    ]


@settings(max_examples=50)
@given(grids())
def test_monotone_points_are_met_exactly_and_keep_their_standing(points: list[Point]) -> None:
    time = StageTime("act", A100, points)
    found = time.seconds([p.sms for p in points], 1.0, [p.batch for p in points])
    assert found.median_s == pytest.approx([p.median_s for p in points], rel=1e-9)
    assert found.p95_s == pytest.approx([p.p95_s for p in points], rel=1e-9)
    assert list(found.bytes) == [p.bytes for p in points]
    standing = [STANDING[source] for source in found.source]
    assert all(rank >= STANDING[p.source] for rank, p in zip(standing, points, strict=True))


WORKS = st.sampled_from(
    [
        None,
        WORK,
        Work(),
        Work(flops=1e13, kernel_s=0.2),
        Work(weight_bytes=5e10, weight_reads=7, flops=1e10),
        Work(core_seconds=0.01, flops=1e12, weight_bytes=1e9, kernel_s=1e-4),
        Work(fp32_flops=5e9, activation_bytes=1e9),
    ]
)


@settings(max_examples=50)
@given(grids(monotone=False), WORKS)
def test_time_never_falls_with_the_batch_nor_rises_with_the_quota(
    points: list[Point], work: Work | None
) -> None:
    time = StageTime("act", A100, points, work=work, estimate=True)
    q = np.arange(4, 109, 4)
    b = np.array([1, 2, 3, 5, 8, 13, 21, 34, 55, 64, 90, 128])
    found = time.seconds(q[:, None], 1.0, b[None, :])
    assert (np.diff(found.median_s, axis=1) >= -1e-9 * found.median_s[:, 1:]).all()
    assert (np.diff(found.median_s, axis=0) <= 1e-9 * found.median_s[1:]).all()
    assert (found.p95_s >= found.median_s * (1 - 1e-12)).all()
    assert (np.diff(found.bytes, axis=1) >= 0).all()


@settings(max_examples=50)
@given(grids(monotone=False), WORKS)
def test_on_cores_too_time_never_falls_with_the_batch_nor_rises_with_the_cores(
    points: list[Point], work: Work | None
) -> None:
    cores = [msgspec.structs.replace(p, device="cpu", sms=0, cores=p.sms / 8) for p in points]
    time = StageTime("act", None, cores, work=work, estimate=True)
    c = np.array([0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0, 6.75, 10.0, 13.5, 16.0])
    found = time.seconds(0, c[:, None], np.array([[1, 2, 3, 8, 20, 64, 128]]))
    assert (np.diff(found.median_s, axis=1) >= -1e-9 * found.median_s[:, 1:]).all()
    assert (np.diff(found.median_s, axis=0) <= 1e-9 * found.median_s[1:]).all()


@settings(max_examples=50)
@given(grids(monotone=False))
def test_the_standing_of_a_result_is_never_better_than_that_of_the_points_around_it(
    points: list[Point],
) -> None:
    time = StageTime("act", A100, points, work=WORK, estimate=True)
    quotas, batches = sorted({p.sms for p in points}), sorted({p.batch for p in points})
    known = {(p.sms, p.batch): STANDING[p.source] for p in points}
    places = list(itertools.product((6, 8, 12, 20, 54, 66, 108), (1, 3, 8, 20, 64, 100)))
    found = time.seconds([q for q, _ in places], 1.0, [b for _, b in places])
    for (q, b), source in zip(places, found.source, strict=True):
        if not (quotas[0] <= q <= quotas[-1] and batches[0] <= b <= batches[-1]):
            assert source == "estimated"
            continue
        around = [
            known[x, y]
            for x in {max(s for s in quotas if s <= q), min(s for s in quotas if s >= q)}
            for y in {max(s for s in batches if s <= b), min(s for s in batches if s >= b)}
        ]
        assert STANDING[str(source)] >= max(around)


@given(st.lists(st.floats(0.1, 2.0), min_size=3, max_size=6))
def test_concave_throughput_stays_concave_in_the_quota(gains: list[float]) -> None:
    falling = sorted(gains, reverse=True)
    rates = np.cumsum(falling)
    points = [point(16 * (i + 1), 4, float(4 / rate)) for i, rate in enumerate(rates)]
    q = np.arange(16, 16 * len(gains) + 1, 4)
    rate = 4 / StageTime("act", A100, points).seconds(q, 1.0, 4).median_s
    assert (np.diff(rate, 2) <= 1e-9 * rate[2:]).all()
    assert (np.diff(rate) >= -1e-9 * rate[1:]).all()


def test_a_cliff_stays_where_it_was_measured() -> None:
    libero = next(each for each in figures() if each.what.startswith("LIBERO"))
    points = [point(108, b, s, p95_s=s) for b, s in zip(libero.batch, libero.seconds, strict=True)]
    before, at = StageTime("act", A100, points).seconds(108, 1.0, [32, 64]).median_s
    assert before == pytest.approx(4.66)
    assert at == pytest.approx(18.5)


def test_beyond_the_hull_the_missing_point_is_named() -> None:
    time = StageTime("act", A100, [point(54, 1, 0.1), point(108, 8, 0.2)])
    with pytest.raises(PlanError, match=r"no point at 16 SMs of a100, 1 host cores, batch 2 "):
        time.seconds([54, 16], 1.0, [1, 2])
    with pytest.raises(PlanError, match="batch 9"):
        time.seconds(108, 1.0, 9)


def test_too_few_host_cores_are_outside_the_hull() -> None:
    time = StageTime("act", A100, [point(108, 1, 0.1, cores=4.0)])
    with pytest.raises(PlanError, match="with 4 host cores or more"):
        time.seconds(108, 2.0, 1)
    assert time.seconds(108, 8.0, 1).median_s == pytest.approx(0.1)


def test_too_few_host_cores_are_estimated_as_if_the_host_were_all_of_it() -> None:
    time = StageTime("act", A100, [point(108, 1, 0.1, cores=4.0)], estimate=True)
    found = time.seconds(108, [4.0, 1.0], 1)
    assert found.median_s == pytest.approx([0.1, 0.4])
    assert list(found.source) == ["measured", "estimated"]


def test_more_host_cores_choose_the_points_measured_with_them() -> None:
    time = StageTime("act", A100, [point(108, 1, 0.1), point(108, 1, 0.06, cores=4.0)])
    assert time.seconds(108, [1.0, 2.0, 4.0], 1).median_s == pytest.approx([0.1, 0.1, 0.06])


def test_beyond_the_hull_an_estimate_joins_the_hull_without_a_jump() -> None:
    time = StageTime(
        "act", A100, [point(54, 4, 0.1), point(108, 4, 0.08)], work=WORK, estimate=True
    )
    found = time.seconds(108, 1.0, [4, 8])
    ratio = roofline.seconds(WORK, A100, 108, [4, 8])
    assert found.median_s[1] / found.median_s[0] == pytest.approx(ratio[1] / ratio[0])
    assert list(found.source) == ["measured", "estimated"]
    assert found.bytes[1] == found.bytes[0] + 4 * 1e8


def test_without_work_an_estimate_promises_no_more_than_monotony_and_concavity() -> None:
    time = StageTime("act", A100, [point(54, 4, 0.1)], estimate=True)
    found = time.seconds([54, 54, 108, 27], 1.0, [2, 8, 4, 4])
    assert found.median_s == pytest.approx([0.1, 0.2, 0.1, 0.2])
    assert set(found.source) == {"estimated"}


def test_without_points_the_roofline_answers_if_it_may() -> None:
    found = StageTime("act", A100, [], work=WORK, estimate=True).seconds([54, 108], 1.0, 8)
    assert found.median_s == pytest.approx(roofline.seconds(WORK, A100, [54, 108], 8))
    assert set(found.source) == {"estimated"}
    for work, estimate in ((WORK, False), (None, True)):
        with pytest.raises(PlanError, match="no profile on a100"):
            StageTime("act", A100, [], work=work, estimate=estimate)


def test_points_of_other_stages_and_devices_are_ignored() -> None:
    others = [point(108, 1, 9.0, stage="train"), point(108, 1, 9.0, device="h100")]
    found = StageTime("act", A100, [*others, point(108, 1, 0.1)]).seconds(108, 1.0, 1)
    assert found.median_s == pytest.approx(0.1)


def test_a_share_of_a_core_takes_its_share_longer_and_is_still_measured() -> None:
    time = StageTime("act", None, [cpu(1, 4, 0.1), cpu(2, 4, 0.06)])
    found = time.seconds(0, [0.25, 1.0, 1.5, 2.0], 4)
    assert found.median_s == pytest.approx([0.4, 0.1, 1 / ((10 + 100 / 6) / 2), 0.06])
    assert set(found.source) == {"measured"}
    with pytest.raises(PlanError, match="no point at 3 cores"):
        time.seconds(0, 3.0, 4)


def test_memory_that_a_point_does_not_state_is_what_work_says() -> None:
    time = StageTime("act", A100, [point(108, 1, 0.1, bytes=0)], work=WORK, estimate=True)
    assert time.seconds(108, 1.0, 1).bytes == 1e10 + 1e8


@given(st.sampled_from(devices.catalogue()), st.sampled_from(devices.catalogue()), st.booleans())
def test_what_is_carried_to_another_device_is_estimated_and_says_from_where(
    source: DeviceKind, target: DeviceKind, with_work: bool
) -> None:
    assume(source != target)
    points = [point(source.sms, 4, 0.1, device=source.name, origin="a paper")]
    (moved,) = transfer(points, source, target, WORK if with_work else None)
    assert (moved.source, moved.device, moved.sms) == ("estimated", target.name, target.sms)
    assert source.name in moved.origin
    assert "a paper" in moved.origin
    if with_work:
        here, there = (
            float(roofline.seconds(WORK, kind, kind.sms, 4)) for kind in (source, target)
        )
        assert moved.median_s == pytest.approx(0.1 * there / here)


def test_points_are_carried_from_the_device_that_knows_best() -> None:
    known = [
        point(132, 1, 0.2, device="h100", source="estimated"),
        point(128, 1, 0.1, device="rtx4090", source="published"),
        point(142, 1, 0.3, device="unheard-of"),
    ]
    (moved,) = carried("act", A100, known, WORK)
    assert "rtx4090" in moved.origin
    assert carried("act", A100, known[2:], WORK) == ()


def test_a_stage_prefers_its_own_points_to_carried_ones_and_those_to_arithmetic() -> None:
    stage = StageProgram(
        name="generate", kind="generate", where="", rate="1", runs_on=("gpu",), type="", work=WORK,
        profile_key="act",
    )  # fmt: skip
    own = point(108, 1, 0.5)
    other = point(128, 1, 0.1, device="rtx4090")
    assert for_stage(stage, A100, [own, other]).seconds(108, 1.0, 1).median_s == pytest.approx(0.5)
    taken = for_stage(stage, A100, [other]).seconds(108, 1.0, 1)
    (moved,) = transfer([other], devices.find("rtx4090"), A100, WORK)
    assert taken.median_s == pytest.approx(moved.median_s)
    bare = for_stage(stage, A100, []).seconds(108, 1.0, 1)
    assert bare.median_s == pytest.approx(float(roofline.seconds(WORK, A100, 108, 1)))
    with pytest.raises(PlanError, match="no profile on a100"):
        for_stage(stage, A100, [other], estimate=False)


def test_queries_broadcast_and_keep_their_shape() -> None:
    time = StageTime(
        "act", A100, [point(54, 1, 0.1), point(54, 8, 0.4), point(108, 1, 0.08), point(108, 8, 0.3)]
    )
    found = time.seconds(np.array([[54], [108]]), 1.0, np.array([[1, 4, 8]]))
    assert found.median_s.shape == found.source.shape == (2, 3)
