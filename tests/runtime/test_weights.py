"""Weights in shared memory, and action noise."""

from __future__ import annotations

import threading

import numpy as np

from ebrl.runtime.noise import Noise, block_of
from ebrl.runtime.weights import Weights
from tests.runtime.support import pool, program


def test_a_reader_never_sees_a_mix_of_two_versions() -> None:
    slab, _ = pool(program(), environments=1, weights_bytes=400_000)
    slab["weights/version"][0] = slab["weights/writing"][0] = -1
    weights = Weights(slab)
    done = threading.Event()

    def write() -> None:
        for version in range(400):
            buffer = weights.begin(version)
            for part in np.array_split(buffer, 50):
                part[:] = version
            weights.publish(version)
        done.set()

    writer = threading.Thread(target=write)
    into = np.empty(weights.size, np.float32)
    writer.start()
    seen = set()
    while not done.is_set():
        if weights.version < 0:
            continue
        version = weights.read(into)
        assert into.min() == into.max() == version
        seen.add(version)
    writer.join()
    assert weights.read(into) == 399
    assert len(seen) > 1


def test_noise_depends_on_environment_and_decision_not_on_who_shares_the_batch() -> None:
    alone = Noise(seed=5, first=0, last=8, size=3, kind="normal")
    together = Noise(seed=5, first=0, last=8, size=3, kind="normal")
    everybody = np.arange(8)
    block = block_of(3)
    for decision in (0, 1, block - 1, block, 3 * block + 7):
        decisions = np.full(8, decision)
        batch = together.draw(everybody, decisions)
        for env in (6, 1, 3):
            row = alone.draw(np.array([env]), np.array([decision]))
            np.testing.assert_array_equal(row[0], batch[env])


def test_environments_that_are_at_different_decisions_get_each_their_own_numbers() -> None:
    noise = Noise(seed=5, first=2, last=5, size=1, kind="uniform")
    again = Noise(seed=5, first=0, last=9, size=1, kind="uniform")
    block = block_of(1)
    mixed = noise.draw(np.array([2, 3, 4]), np.array([0, block, 5 * block + 1]))
    for row, (env, decision) in enumerate([(2, 0), (3, block), (4, 5 * block + 1)]):
        np.testing.assert_array_equal(
            mixed[row], again.draw(np.array([env]), np.array([decision]))[0]
        )


def test_what_is_drawn_ahead_is_bounded() -> None:
    assert [block_of(size) for size in (1, 8, 64, 350, 100_000)] == [512, 512, 64, 16, 16]


def test_seeds_environments_and_decisions_have_uncorrelated_noise() -> None:
    def stream(seed: int, env: int) -> np.ndarray:
        noise = Noise(seed=seed, first=env, last=env + 1, size=1, kind="normal")
        return np.concatenate(
            [noise.draw(np.array([env]), np.array([decision]))[0] for decision in range(4000)]
        )

    streams = np.stack(
        [stream(0, 0), stream(0, 1), stream(1, 0), np.roll(stream(0, 0), block_of(1))]
    )
    correlation = np.corrcoef(streams) - np.eye(4)
    assert np.abs(correlation).max() < 0.06
    assert abs(streams.mean()) < 0.05
    assert abs(streams.std() - 1) < 0.05
