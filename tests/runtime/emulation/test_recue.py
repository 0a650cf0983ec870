"""A worker that runs on is told other times, and plays by them."""

from __future__ import annotations

import time

import pytest

from ebrl.runtime.emulation.recue import read_cue, write_cue
from tests.runtime.emulation.test_pace import cue, pace, slab


def test_what_was_written_last_is_what_is_read(tmp_path):
    assert read_cue(tmp_path, "generate 0") is None
    write_cue(tmp_path, "generate 0", cue(0.1))
    write_cue(tmp_path, "generate 0", cue(0.2, speed=2.0))
    write_cue(tmp_path, "generate 1", cue(0.3))
    assert read_cue(tmp_path, "generate 0") == cue(0.2, speed=2.0)


def test_calls_take_the_time_of_the_cue_that_was_adopted():
    clock = pace(cue(5.0), slab(1))
    clock.adopt(cue(0.05))
    begin = time.monotonic()
    clock.call(1)
    assert time.monotonic() - begin == pytest.approx(0.05, rel=0.3)
