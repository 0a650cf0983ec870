"""What holds of every simulation: it can be repeated, loses nothing, and keeps its bounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from ebrl.errors import PlanError
from ebrl.planner.foresight.conditions import Conditions, Discipline
from ebrl.planner.foresight.outcome import interval
from ebrl.planner.foresight.sharing import Clock, Cores, Turns
from ebrl.planner.foresight.simulate import simulate
from tests.planner.foresight.pipelines import random_plan

VARIED = Conditions(seconds=15.0, spread=0.4, stragglers=0.05, episode_steps=30.0, seed=7)
LOCKSTEP = Discipline(together="everybody", merge=False, rounds=True)
SHARDS = Discipline(together="worker", merge=True)


@pytest.fixture(scope="module")
def plan():
    return random_plan(41)  # two rows a segment, an update every 1.4 s


def test_one_seed_gives_one_trace_byte_for_byte(plan, tmp_path: Path):
    written = []
    for name in ("a.json", "b.json"):
        _, trace = simulate(plan, VARIED, trace=True)
        assert trace is not None
        trace.write(tmp_path / name)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert len(json.loads(written[0])["traceEvents"]) > 1000


def test_another_seed_gives_another_run(plan):
    first, _ = simulate(plan, VARIED)
    other, _ = simulate(plan, replace(VARIED, seed=8))
    assert first.produced != other.produced


def test_a_trace_changes_nothing(plan):
    plain, _ = simulate(plan, VARIED)
    traced, _ = simulate(plan, VARIED, trace=True)
    assert replace(plain, wall_s=0.0) == replace(traced, wall_s=0.0)


@pytest.mark.parametrize("discipline", [None, LOCKSTEP, SHARDS])
def test_nothing_is_lost_and_nobody_is_staler_than_allowed(plan, discipline):
    outcome, _ = simulate(plan, VARIED, discipline=discipline)
    training = plan.program.training
    assert outcome.produced == outcome.trained + outcome.discarded + outcome.in_flight
    assert outcome.in_flight >= 0
    assert outcome.updates > 3
    assert outcome.staleness_max <= plan.max_staleness
    assert sum(outcome.staleness.values()) == pytest.approx(1.0)
    assert outcome.trained <= outcome.updates * training.batch


def test_stragglers_cost_most_where_everybody_waits_for_everybody(plan):
    def kept(discipline: Discipline | None) -> float:
        rates = []
        for chance in (0.0, 0.05):
            given = replace(VARIED, spread=None, stragglers=chance)
            outcome, _ = simulate(plan, given, discipline=discipline)
            rates.append(outcome.rollout_env_steps_per_s)
        return rates[1] / rates[0]

    assert kept(LOCKSTEP) < 0.95 * kept(None)


def test_ends_of_episodes_take_rows(plan):
    whole, _ = simulate(plan, Conditions(seconds=10.0, episodes=False))
    cut, _ = simulate(plan, Conditions(seconds=10.0, episode_steps=10.0))
    assert whole.trained == whole.updates * plan.program.training.batch
    assert cut.trained < cut.updates * plan.program.training.batch


def test_busy_shares_are_shares(plan):
    outcome, _ = simulate(plan, VARIED)
    for stage in outcome.stages:
        assert 0 <= stage.busy <= 1 + 1e-9
        assert stage.queue >= -1e-9


def test_no_time_is_refused(plan):
    with pytest.raises(PlanError, match="no time to simulate"):
        simulate(plan, Conditions(seconds=0.0))


def test_equal_updates_leave_no_doubt():
    assert interval([(float(i), 10 * i) for i in range(21)]) == pytest.approx((10.0, 10.0))


def test_too_few_updates_have_no_interval():
    assert interval([(float(i), i) for i in range(4)]) is None


def run(clock: Clock) -> None:
    import heapq

    while clock.heap:
        when, _, happens = heapq.heappop(clock.heap)
        clock.now = when
        happens(when)


def test_two_jobs_on_one_core_take_twice_as_long():
    clock = Clock()
    ends: list[float] = []
    cores = Cores(clock, 1.0)
    cores.start(0.0, 1.0, 1.0, ends.append)
    cores.start(0.0, 2.0, 1.0, ends.append)
    run(clock)
    assert ends == pytest.approx([2.0, 3.0])


def test_turns_go_by_weight_and_one_alone_has_everything():
    clock = Clock()
    ends: list[float] = []
    device = Turns(clock, None, 1.0)
    device.start(0.0, 3.0, 0.75, ends.append)
    device.start(0.0, 2.0, 0.25, ends.append)
    run(clock)
    assert ends == pytest.approx([4.0, 5.0])


def test_a_device_slows_down_with_its_host_cores():
    clock = Clock()
    ends: list[float] = []
    cores = Cores(clock, 1.0)
    device = Turns(clock, cores, 1.0)
    device.start(0.0, 1.0, 0.5, ends.append)
    cores.start(0.0, 1.0, 1.0, ends.append)
    run(clock)
    assert ends == pytest.approx([2.0, 2.0])
