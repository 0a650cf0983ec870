"""One stage slower, everything slower, the machine taken by others, or noise."""

from __future__ import annotations

import pytest

from ebrl.runtime.watch.drift import Detector, Finding
from ebrl.runtime.watch.learn import updated
from tests.runtime.watch.worlds import World, plan


def watched(world: World, detector: Detector, seconds: int) -> Finding:
    for _ in range(seconds):
        detector.add(world.window())
    return detector.finding()


def start(sigma: float = 0.05) -> tuple[World, Detector]:
    made = plan()
    world, detector = World(made, sigma=sigma), Detector(made, made.profile, window_s=1.0)
    assert watched(world, detector, 40).kind == "none"
    return world, detector


@pytest.mark.parametrize(
    ("stage", "factor"), [("simulate", 2.0), ("generate", 1.8), ("train", 0.6)]
)
def test_a_stage_that_changed_is_named_with_how_much(stage: str, factor: float):
    world, detector = start()
    world.factors[stage] = factor
    found = watched(world, detector, 10)
    assert found.kind == "drift"
    assert found.factors[stage] == pytest.approx(factor, rel=0.1)
    assert all(f == pytest.approx(1.0, abs=0.1) for n, f in found.factors.items() if n != stage)
    assert found.common == 1.0
    assert stage in found.text


def test_a_growing_change_is_noticed_while_it_grows():
    world, detector = start(sigma=0.1)
    for second in range(60):
        world.factors["simulate"] = 1 + 0.6 * second / 60
        detector.add(world.window())
        if detector.finding().kind != "none":
            break
    assert detector.finding().kind == "drift"
    assert second < 50


def test_everything_slower_alike_is_contention_and_what_remains_of_a_stage_is_drift():
    world, detector = start()
    world.factors = dict.fromkeys(world.factors, 1.5)
    found = watched(world, detector, 10)
    assert found.kind == "contention"
    assert found.common == pytest.approx(1.5, rel=0.1)
    assert "everything takes" in found.text
    world.factors["simulate"] = 2.6
    found = watched(world, detector, 60)
    assert found.kind == "drift"
    assert found.factors["simulate"] * found.common == pytest.approx(2.6, rel=0.25)


def test_cores_that_others_take_are_contention_and_a_short_burst_is_not():
    world, detector = start()
    world.foreign = 1.0
    assert watched(world, detector, 2).kind == "none"
    world.foreign = 0.0
    assert watched(world, detector, 20).kind == "none"
    world.foreign = 1.0
    found = watched(world, detector, 20)
    assert found.kind == "contention"
    assert found.foreign == pytest.approx(1.0, abs=0.1)
    assert set(found.factors.values()) == {1.0}


def test_smaller_batches_than_planned_are_no_drift():
    world, detector = start()
    world.batch = 2.0
    assert watched(world, detector, 60).kind == "none"


def test_a_profile_that_was_wrong_from_the_start_is_told_too():
    made = plan()
    world, detector = World(made), Detector(made, made.profile, window_s=1.0)
    world.factors["generate"] = 1.7
    found = watched(world, detector, 40)
    assert found.factors["generate"] == pytest.approx(1.7, rel=0.05)


def test_what_is_believed_is_not_found_again():
    world, detector = start()
    world.factors["simulate"] = 2.0
    found = watched(world, detector, 10)
    points = updated(world.plan, world.plan.profile, found.factors, {})
    detector.rebase(world.plan, points, 0.0)
    assert watched(world, detector, 200).kind == "none"


def test_a_measured_place_stays_measured_and_a_guess_is_called_one():
    made = plan()
    world = World(made)
    world.factors["generate"] = 2.0
    seen = world.window().stages
    before = {point.place: point for point in made.profile}
    after = updated(made, made.profile, {"generate": 2.0}, seen)
    assert len(after) == len(before)
    for point in after:
        if point.stage != "generate":
            assert point == before[point.place]
            continue
        assert point.median_s == pytest.approx(2 * before[point.place].median_s)
        near = 1 / 1.5 <= point.batch / world.batch <= 1.5
        assert point.source == ("measured" if near else "estimated")
        if near:
            assert point.p95_s / point.median_s == pytest.approx(1.3)
