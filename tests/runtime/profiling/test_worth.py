"""Which places the planner's answer depends on."""

from __future__ import annotations

from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.planner.cluster import parse
from ebrl.planner.profile import Point
from ebrl.runtime.profiling.tally import Interval, Place
from ebrl.runtime.profiling.worth import MATTERS, Judge, Times, bounded
from tests.runtime.support import GRAPHS


def around(seconds: float, width: float = 0.1) -> Interval:
    return Interval(seconds * (1 - width), seconds, seconds * (1 + width))


def points(times: Times) -> tuple[Point, ...]:
    return tuple(
        Point(
            stage=place.stage,
            device="cpu",
            cores=float(place.cores),
            batch=place.batch,
            median_s=seconds,
            p95_s=seconds,
            bytes=1_000_000,
            source="measured",
        )
        for place, seconds in times.items()
    )


def test_the_stage_that_limits_the_plan_matters_and_one_that_hardly_works_does_not():
    program = check(load_graph(GRAPHS / "cartpole.py"))
    assert program.training is not None
    sim, act = Place("simulate", 0, 1, 1), Place("generate", 0, 1, 8)
    ppo = Place("train", 0, 1, program.training.batch)
    known = {sim: around(1e-2), act: around(1e-5), ppo: around(1e-3)}
    worths = Judge(program, parse("cpu2"), points).worths(known, known)
    assert 0.1 < worths[sim] < 0.3  # ± 10 % of the time is ± 10 % of the throughput
    assert worths[act] < MATTERS
    assert worths[ppo] < MATTERS


def test_an_unmeasured_place_that_could_be_better_is_still_open_and_a_hopeless_one_is_not():
    program = check(load_graph(GRAPHS / "cartpole.py"))
    assert program.training is not None
    ppo = Place("train", 0, 1, program.training.batch)
    known = {
        Place("simulate", 0, 1, 1): around(1e-5),
        Place("generate", 0, 1, 1): around(1e-3),
        ppo: around(1e-4),
    }
    better, hopeless = Place("generate", 0, 1, 4), Place("train", 0, 2, ppo.batch)
    worths = Judge(program, parse("cpu2"), points).worths([better, hopeless], known)
    assert worths[better] > 1.0  # four answers could cost as much as one
    assert worths[hopeless] < MATTERS


def test_bounds_follow_from_neighbours_by_monotony_alone():
    known = {Place("act", 0, 1, 4): Interval(3.0, 4.0, 5.0)}
    assert bounded(Place("act", 0, 1, 8), known)[::2] == (3.0, 10.0)  # twice four at worst
    assert bounded(Place("act", 0, 2, 4), known)[::2] == (1.5, 5.0)  # twice as fast at best
    assert bounded(Place("act", 0, 1, 1), known).high == 5.0  # a batch may be padded
    assert bounded(Place("ppo", 0, 1, 1), known).width > 100  # nothing is known
