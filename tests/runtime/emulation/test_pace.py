"""Waits last as long as they should, alone and shared."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from ebrl.planner.layout import (
    CLOCK_CORES,
    CLOCK_FIRINGS,
    CLOCK_WISH,
    PRODUCED_AT,
    WORK_COUNT,
    WORK_NS,
)
from ebrl.runtime.emulation.cue import Cue, Injection, Load, Sharing
from ebrl.runtime.emulation.pace import Pace


def slab(workers: int) -> dict[str, np.ndarray]:
    return {
        "clock": np.zeros((workers, 8), np.int64),
        "produced": np.zeros((workers, 8), np.int64),
        "work": np.zeros((workers, 8), np.int64),
        "work/ring": np.zeros((workers, 64, 2), np.int64),
    }


def pace(cue: Cue, memory: dict[str, np.ndarray]) -> Pace:
    return Pace(cue, memory, stopping=lambda: False, beat=lambda: None)  # type: ignore[arg-type]


def cue(median: float = 0.002, *, row: int = 0, share: Sharing | None = None, **more: Any) -> Cue:
    medians = (0.0, median, 1.5 * median)
    load = Load(index=0, row=row, medians=medians, sigma=0.0, place=(0, 0), share=share, wish=1.0)
    return Cue(loads=(load,), **more)


def test_lateness_does_not_add_up():
    clock = pace(cue(), slab(1))
    begin = time.monotonic()
    for _ in range(100):
        clock.call(1)
    assert time.monotonic() - begin == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize(("size", "seconds"), [(1, 0.1), (2, 0.15), (4, 0.3)])
def test_a_call_takes_the_time_of_its_size(size, seconds):
    begin = time.monotonic()
    pace(cue(0.1), slab(1)).call(size)
    assert time.monotonic() - begin == pytest.approx(seconds, rel=0.15)


def test_speed_lets_the_clock_run_faster():
    begin = time.monotonic()
    pace(cue(1.0, speed=20.0), slab(1)).call(1)
    assert time.monotonic() - begin == pytest.approx(0.05, rel=0.3)


@pytest.mark.parametrize(("turns", "capacity"), [(True, 1.0), (False, 1.0)])
def test_two_that_share_one_take_twice_as_long(turns, capacity):
    memory = slab(2)
    share = Sharing(turns=turns, capacity=capacity, members=(0, 1))
    both = [pace(cue(0.15, row=row, share=share), memory) for row in range(2)]
    threads = [threading.Thread(target=each.call, args=(1,)) for each in both]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begin == pytest.approx(0.3, rel=0.2)
    assert not memory["clock"][:, CLOCK_WISH].any()


def test_one_alone_on_a_shared_device_has_it_to_itself():
    share = Sharing(turns=True, capacity=1.0, members=(0, 1))
    begin = time.monotonic()
    pace(cue(0.1, share=share), slab(2)).call(1)
    assert time.monotonic() - begin == pytest.approx(0.1, rel=0.15)


def test_an_update_waits_for_the_slowest_rank_at_each_meeting():
    loads = tuple(
        Load(index=rank, row=rank, medians=(0.0, seconds), sigma=0.0, place=(0, rank), calls=4)
        for rank, seconds in enumerate((0.01, 0.03))
    )
    begin = time.monotonic()
    pace(Cue(loads=loads, meetings=2, overhead_s=0.05), slab(2)).update()
    assert time.monotonic() - begin == pytest.approx(0.17, rel=0.15)


def test_drift_grows_from_its_moment_on():
    memory = slab(1)
    drift = Injection(kind="drift", stage="simulate", factor=3.0, at_s=10.0, ramp_s=10.0)
    clock = pace(cue(injections=(drift,)), memory)
    factors = []
    for age in (0, 9, 15, 30):
        memory["produced"][0, PRODUCED_AT] = time.monotonic_ns() - int(age * 1e9)
        factors.append(clock._trouble(clock._jobs[0]))
    assert factors == pytest.approx([1.0, 1.0, 2.0, 3.0], abs=0.01)


def test_stragglers_come_as_often_as_asked():
    late = Injection(kind="straggle", stage="simulate", factor=20.0, chance=0.1)
    clock = pace(cue(injections=(late,)), slab(1))
    job = clock._jobs[0]
    slow = sum(job.factor(clock._straggle(job)) > 1 for _ in range(2000))
    assert 140 < slow < 260


def test_of_an_update_s_calls_each_may_straggle():
    late = Injection(kind="straggle", stage="simulate", factor=20.0, chance=0.1)
    load = Load(index=0, row=0, medians=(0.0, 0.1), sigma=0.0, place=(0, 0), calls=2000)
    clock = pace(Cue(loads=(load,), injections=(late,)), slab(1))
    job = clock._jobs[0]
    mean = job.part(1, clock._straggle(job)) / job.part(1)
    assert mean == pytest.approx(1 + 0.1 * 19, rel=0.3)


def test_a_rank_that_shares_its_device_holds_up_the_others_by_as_much():
    memory = slab(3)
    share = Sharing(turns=True, capacity=1.0, members=(1, 2))
    memory["clock"][2, CLOCK_WISH] = 1_000_000  # somebody else is at work there all the time
    loads = (
        Load(index=0, row=0, medians=(0.0, 0.1), sigma=0.0, place=(0, 0)),
        Load(index=1, row=1, medians=(0.0, 0.1), sigma=0.0, place=(0, 1), share=share, wish=1.0),
    )
    begin = time.monotonic()
    pace(Cue(loads=loads), memory).update()
    assert time.monotonic() - begin == pytest.approx(0.2, rel=0.15)
    assert memory["clock"][1, CLOCK_WISH] == 0


def test_a_slow_device_slows_what_runs_on_it_and_nothing_else():
    slow = Injection(kind="device", device="node/3", factor=2.0, at_s=0.0)
    for device, factor in (("node/3", 2.0), ("node/4", 1.0), (None, 1.0)):
        load = Load(index=0, row=0, medians=(0.0, 0.01), sigma=0.0, place=(0, 0), device=device)
        clock = pace(Cue(loads=(load,), injections=(slow,)), slab(1))
        assert clock._trouble(clock._jobs[0]) == factor


def test_cores_that_are_gone_hold_up_what_runs_on_them_by_as_much_as_they_are_short():
    memory = slab(2)
    gone = Injection(kind="cores", chance=0.25, at_s=0.0)
    memory["clock"][1, CLOCK_CORES] = 10_000_000  # another keeps ten of sixteen cores busy
    load = Load(index=0, row=0, medians=(0.0, 0.1), sigma=0.0, place=(0, 0), cores=8.0)
    clock = pace(Cue(loads=(load,), injections=(gone,), cores=16.0), memory)
    begin = time.monotonic()
    clock.call(1)
    assert time.monotonic() - begin == pytest.approx(0.1 * 18 / 12, rel=0.1)
    assert memory["clock"][0, CLOCK_CORES] == 0


def test_a_clock_shows_work_and_not_how_long_it_waited_for_its_part():
    memory = slab(2)
    memory["clock"][1, CLOCK_WISH] = 1_000_000  # somebody else is at work there all the time
    share = Sharing(turns=True, capacity=1.0, members=(0, 1))
    clock = pace(cue(0.2, share=share, speed=2.0), memory)
    clock.call(1)
    assert clock.spent_ns() == 100_000_000  # of ours; it took twice that
    assert clock.spent_ns() == 0


def test_ranks_that_one_process_plays_are_on_clocks_of_their_own():
    memory = slab(2)
    loads = tuple(
        Load(index=rank, row=rank, medians=(0.0, seconds), sigma=0.0, place=(0, rank), calls=2)
        for rank, seconds in enumerate((0.01, 0.02))
    )
    clock = pace(Cue(loads=loads, meetings=1), memory)
    clock.update()
    assert clock.spent_ns() == 20_000_000
    assert memory["work"][1, WORK_NS] == 40_000_000
    assert memory["work"][1, WORK_COUNT] == memory["clock"][1, CLOCK_FIRINGS] == 1


def test_a_new_process_takes_its_time_to_be_born():
    begin = time.monotonic()
    pace(cue(birth_s=0.4, speed=4.0), slab(1)).birth()
    assert time.monotonic() - begin == pytest.approx(0.1, rel=0.3)
