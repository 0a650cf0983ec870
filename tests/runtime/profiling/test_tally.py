"""How well a median is known: an interval that holds it as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from ebrl.runtime.profiling.tally import CONFIDENCE, SYSTEMATIC, Interval, Tally, order


def test_the_interval_of_order_statistics_is_the_textbooks():
    assert [order(n) for n in (5, 6, 9, 10, 20, 100)] == [0, 1, 2, 2, 6, 40]


@pytest.mark.parametrize("n", [6, 15, 40])
def test_it_holds_the_median_at_least_as_often_as_it_says(n: int):
    generator = np.random.default_rng(3)
    samples = np.sort(np.exp(generator.standard_normal((20_000, n))), axis=1)
    j = order(n)
    held = (samples[:, j - 1] <= 1.0) & (samples[:, -j] >= 1.0)  # the median of exp(N) is 1
    assert held.mean() > CONFIDENCE - 0.005


def test_few_slices_are_called_what_they_are():
    tally = Tally()
    for seconds in (1.0, 1.2, 1.1):
        tally.add([seconds])
    low, middle, high = tally.interval()
    assert low < 1.0
    assert middle == 1.1
    assert high > 1.2


def test_even_equal_slices_are_not_known_better_than_two_processes_agree():
    tally = Tally()
    for _ in range(50):
        tally.add([2.0, 2.0])
    assert tally.interval().width == pytest.approx(SYSTEMATIC)
    assert tally.timings == 100
    assert Interval(0.9, 1.0, 1.1).width == pytest.approx(0.1)
