"""A process that is killed at any line of a change of owner leaves books that agree."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from ebrl.runtime import books as books_module
from ebrl.runtime import segments as segments_module
from ebrl.runtime.ledger import read as read_ledger
from ebrl.runtime.segments import FREE, READY, Segments
from ebrl.runtime.slab import Slab
from tests.runtime.support import pool, program

FILES = {books_module.__file__, segments_module.__file__}
ETA, PER_BATCH = 1, 4


def dies_at_line(act: Callable[[], object], line: int) -> bool:
    """Do `act` in a fork that is killed at its `line`-th line of our code; False: it ended."""
    child = os.fork()
    if child == 0:
        left = line

        def trace(frame, event, arg):
            nonlocal left
            if frame.f_code.co_filename not in FILES:
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        act()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def step(slab: Slab, segment: int, worker: int = 0) -> None:
    """As a simulate worker does: cells, then what it says it has produced."""
    slab["steps"][segment] = 1
    slab["produced"][worker, 0] += 4


def check(slab: Slab, segments: Segments) -> None:
    """After the next one has had the lock, and the dead worker's things are taken from it."""
    segments.reclaim(0, 0, 4, "worker-lost")
    segments.give_back()
    state = slab["segment/state"]
    alive = int(np.count_nonzero(state != FREE))
    version = int(slab["weights/version"][0])
    assert slab["started"][0] == version * PER_BATCH + alive
    assert slab["env/started"].sum() == slab["started"][0]
    assert set(state.tolist()) <= {FREE, READY}
    assert slab["trained"][0] == 16 * version
    ledger = read_ledger(slab, segments)
    assert ledger.balance == 0, ledger


def a_start(slab: Slab, segments: Segments) -> Callable[[], object]:
    return lambda: segments.start(2)


def a_finish(slab: Slab, segments: Segments) -> Callable[[], object]:
    segment = segments.start(1)
    step(slab, segment)
    return lambda: segments.finish(segment)


def an_abandonment(slab: Slab, segments: Segments) -> Callable[[], object]:
    mine = [segments.start(3) for _ in range(2)]
    for each in mine:
        step(slab, each)
    return lambda: segments.abandon(mine[0], "environment-failed")


def a_batch(slab: Slab, segments: Segments) -> None:
    for environment in range(4):
        segment = segments.start(environment)
        step(slab, segment)
        segments.finish(segment)


def a_take(slab: Slab, segments: Segments) -> Callable[[], object]:
    a_batch(slab, segments)
    return lambda: segments.take(0)


def a_stale_take(slab: Slab, segments: Segments) -> Callable[[], object]:
    slab["version"][:] = -5
    return a_take(slab, segments)


def a_commit(slab: Slab, segments: Segments) -> Callable[[], object]:
    a_batch(slab, segments)
    taken = segments.take(0)
    return lambda: segments.commit(taken, version=1, trained=16, staleness=(0, 16, 0))


@pytest.mark.parametrize(
    "prepare", [a_start, a_finish, an_abandonment, a_take, a_stale_take, a_commit]
)
def test_death_at_any_line_of_a_change_leaves_books_that_agree(prepare) -> None:
    line = 0
    killed = True
    while killed:
        line += 1
        slab, segments = pool(program(max_staleness=ETA), environments=4)
        with slab:
            slab["weights/version"][0] = 0
            act = prepare(slab, segments)
            killed = dies_at_line(act, line)
            check(slab, segments)
    assert line > 10


def test_a_change_that_was_marked_is_carried_out_by_whoever_locks_next() -> None:
    seen = []
    for line in range(1, 80):
        slab, segments = pool(program(max_staleness=ETA), environments=4)
        with slab:
            segment = segments.start(1)
            step(slab, segment)
            if not dies_at_line(partial(segments.finish, segment), line):
                break
            marked = bool(slab["journal"][0])
            segments.start(2)  # somebody else, of another process
            done = int(slab["segment/state"][segment]) == READY
            assert done == (int(slab["produced"][0, 2]) == 4)
            assert done or not marked
            seen.append((marked, done))
    assert (True, True) in seen
    assert (False, False) in seen
