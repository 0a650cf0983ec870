"""When a mean has changed, at a stated rate of false alarms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ebrl.runtime.watch.cusum import Cusum, average_run_length, noise, threshold

HOUR = 3600


@pytest.mark.parametrize("k", [0.25, 0.5, 1.0])
def test_the_threshold_gives_the_run_length_that_was_asked_for(k: float):
    generator = np.random.default_rng(0)
    h = threshold(k, 500)
    sums, alive = np.zeros((2, 3000)), np.ones(3000, bool)
    lengths = np.zeros(3000)
    while alive.any():
        z = generator.standard_normal(3000)
        sums = np.maximum(0, sums + np.stack([z, -z]) - k)
        lengths += alive
        alive &= ~(sums > h).any(axis=0)
    assert lengths.mean() == pytest.approx(500, rel=0.15)


def test_the_run_length_is_that_of_the_tables():
    assert 2 * average_run_length(0.5, 4) == pytest.approx(336, rel=0.02)  # one side, Siegmund 1985


@pytest.mark.parametrize("sigma", [0.2, 0.03])
def test_hours_of_noise_raise_no_alarm(sigma: float):
    generator = np.random.default_rng(1)
    series = Cusum(shift=0.1, run_length=3 * 24 * HOUR)
    assert not any(series.add(sigma * z) for z in generator.standard_normal(2 * HOUR))


def test_noise_with_a_memory_raises_none_either():
    generator = np.random.default_rng(2)
    series, value = Cusum(shift=0.1, run_length=3 * 24 * HOUR), 0.0
    for z in generator.standard_normal(HOUR):
        value = 0.5 * value + 0.1 * z
        assert not series.add(value)


@pytest.mark.parametrize(("factor", "sigma", "within"), [(1.5, 0.05, 5), (2.0, 0.2, 12)])
def test_a_change_is_noticed_within_seconds_and_measured(factor: float, sigma: float, within: int):
    delays, sizes = [], []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        series = Cusum(shift=0.1, run_length=3 * 24 * HOUR)
        for z in generator.standard_normal(60):
            series.add(sigma * z)
        delay = 1
        while not series.add(math.log(factor) + sigma * generator.standard_normal()):
            delay += 1
        delays.append(delay)
        sizes.append(math.exp(series.change))
    assert np.mean(delays) <= within
    assert np.median(sizes) == pytest.approx(factor, rel=0.15)


def test_one_bad_second_is_not_a_change():
    generator = np.random.default_rng(3)
    series = Cusum(shift=0.1, run_length=3 * 24 * HOUR)
    for z in generator.standard_normal(60):
        series.add(0.05 * z)
    assert not series.add(3.0)
    assert not any(series.add(0.05 * z) for z in generator.standard_normal(60))


def test_few_samples_are_trusted_less():
    series = [0.1, -0.1] * 50
    assert noise(series[:8]) > 1.3 * noise(series) > 0.1
