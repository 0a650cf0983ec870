"""Waits last as long as they should, alone and shared."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from ebrl.planner.layout import CLOCK_WISH, PRODUCED_AT
from ebrl.runtime.emulation.cue import Cue, Injection, Load, Sharing
from ebrl.runtime.emulation.pace import Pace


def slab(workers: int) -> dict[str, np.ndarray]:
    return {
        "clock": np.zeros((workers, 8), np.int64),
        "produced": np.zeros((workers, 8), np.int64),
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
    slow = sum(clock._trouble(clock._jobs[0]) > 1 for _ in range(2000))
    assert 140 < slow < 260


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
