"""In steady state the loops of a run keep nothing: no Python object, no array, no tensor.

Measured is what is there after some updates less what was there before them, by tracemalloc (what
Python and numpy hold) and by malloc's own books (those and what torch holds). What is taken and
given back in between, small objects and a minibatch's tensors (at most 140 kB at a time here), is
not growth, nor are a few bytes now and then: counters outgrow the small integers that Python keeps,
and libraries remember addresses they have met.
"""

from __future__ import annotations

import ctypes
import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.one_process import BATCH, OneProcess

ROUNDS, UPDATES = 3, 4
NOISE_BYTES = UPDATES * BATCH  # a byte an environment step; the smallest object has sixteen


class MallInfo(ctypes.Structure):
    """mallinfo2(3): `uordblks` bytes are in use, and `hblkhd` in mappings of their own."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks"),
            *("fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def traced() -> int:
    return tracemalloc.get_traced_memory()[0]


def native() -> int:
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = MallInfo
    found = ask()
    return int(found.uordblks + found.hblkhd)


def growth(one: OneProcess, used: Callable[[], int], rounds: int = ROUNDS) -> int:
    """Bytes kept by `UPDATES` updates and the steps they need; what is kept is kept each time."""
    found = []
    one.go(1)
    for _ in range(rounds):
        gc.collect()
        before = used()
        one.go(UPDATES)
        gc.collect()
        found.append(used() - before)
    return min(found)


@pytest.fixture
def one(tmp_path: Path):
    made = OneProcess(tmp_path)
    yield made
    tracemalloc.stop()
    made.close()


def test_python_and_numpy_keep_nothing(one: OneProcess) -> None:
    one.go(20)
    tracemalloc.start()
    assert growth(one, traced) < NOISE_BYTES


def test_nor_does_torch(one: OneProcess) -> None:
    one.go(20)
    assert growth(one, native) < NOISE_BYTES


@pytest.mark.parametrize("used", [traced, native], ids=lambda used: used.__name__)
def test_one_small_array_kept_an_environment_step_would_be_seen(
    one: OneProcess, used: Callable[[], int]
) -> None:
    kept: list[Any] = []
    body: Any = one.loops.simulate._seats[0].body
    step = body.step

    def leaky(action, obs):
        kept.append(obs[""].copy())
        return step(action, obs)

    body.step = leaky
    tracemalloc.start()
    assert growth(one, used, rounds=1) > UPDATES * BATCH / 8 * 16  # four float32 a step
