"""Ownership of segments, admission by staleness, and the ledger."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.runtime.ledger import read as read_ledger
from ebrl.runtime.segments import FREE, TRAINING
from tests.runtime.support import pool, program

PER_BATCH = 4  # 16 steps in segments of 4


def publish(slab, version):
    slab["weights/writing"][0] = slab["weights/version"][0] = version


def fill(slab, segment, version, steps=4):
    slab["steps"][segment] = 0
    slab["steps"][segment, :steps] = 1
    slab["version"][segment] = version
    slab["produced"][0, 0] += steps


def test_admission_starts_eta_plus_one_batches_a_version_and_no_more() -> None:
    slab, segments = pool(program(max_staleness=2), environments=8)
    publish(slab, 0)
    started = [segments.start(0) for _ in range(20)]
    assert sum(each is not None for each in started) == 3 * PER_BATCH
    taken = np.array([each for each in started if each is not None][:PER_BATCH])
    for each in taken:
        fill(slab, each, 0)
        segments.finish(int(each))
    chosen = segments.take(0)
    assert chosen is not None
    segments.release(chosen)
    assert segments.start(0) is None  # the version has not moved yet
    publish(slab, 1)
    assert sum(segments.start(0) is not None for _ in range(20)) == PER_BATCH


def test_a_batch_is_announced_when_it_is_whole() -> None:
    slab, segments = pool(program(), environments=8)
    publish(slab, 0)
    mine = [segments.start(0) for _ in range(PER_BATCH)]
    for each in mine:
        fill(slab, each, 0)
    assert [segments.finish(each) for each in mine] == [False, False, False, True]


def test_the_oldest_segments_are_trained_first() -> None:
    slab, segments = pool(program(), environments=8)
    publish(slab, 0)
    mine = [segments.start(0) for _ in range(2 * PER_BATCH)]
    for each in reversed(mine):  # finished in the opposite order
        fill(slab, each, 0)
        segments.finish(each)
    chosen = segments.take(0)
    assert chosen is not None
    assert sorted(chosen.tolist()) == sorted(mine[:PER_BATCH])


def test_what_is_too_stale_when_training_begins_is_thrown_away_counted_and_replaced() -> None:
    slab, segments = pool(program(max_staleness=1), environments=8)
    publish(slab, 0)
    old = [segments.start(0) for _ in range(2 * PER_BATCH)]
    publish(slab, 2)
    for each in old:
        fill(slab, each, 0)
        segments.finish(each)
    assert segments.take(2) is None
    ledger = read_ledger(slab, segments)
    assert ledger.discarded["stale"] == 2 * PER_BATCH * 4
    assert ledger.balance == 0
    assert segments.start(0) is not None


def test_staleness_counts_from_the_oldest_decision_in_the_segment() -> None:
    slab, segments = pool(program(), environments=1)
    publish(slab, 3)
    segment = segments.start(0)
    slab["steps"][segment] = [0, 1, 1, 1]  # its first row holds only a final observation
    slab["version"][segment] = [0, 2, 3, 3]
    assert segments.oldest_version(np.array([segment])).tolist() == [2]


def test_with_no_staleness_each_environment_starts_its_share_of_every_batch() -> None:
    slab, segments = pool(program(batch=32, max_staleness=0), environments=4)
    publish(slab, 0)
    shares = [[segments.start(env) for _ in range(5)] for env in (2, 0, 3, 1)]
    assert [sum(each is not None for each in share) for share in shares] == [2, 2, 2, 2]
    for env, share in zip((2, 0, 3, 1), shares, strict=True):
        for each in share[:2]:
            fill(slab, each, 0)
            segments.finish(each)
            assert slab["segment/environment"][each] == env
    chosen = segments.take(0)
    assert chosen is not None
    assert slab["segment/environment"][chosen].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@settings(max_examples=60, deadline=None)
@given(
    eta=st.integers(1, 3),
    acts=st.lists(st.sampled_from(["start", "finish", "take", "lose", "die"]), max_size=120),
)
def test_whatever_happens_every_step_is_accounted_for_and_no_segment_has_two_owners(
    eta: int, acts: list[str]
) -> None:
    slab, segments = pool(program(max_staleness=eta), environments=8)
    publish(slab, 0)
    version = 0
    filling: list[int] = []
    try:
        for act in acts:
            if act == "start":
                segment = segments.start(len(filling) % 8)
                if segment is not None:
                    assert segment not in filling
                    fill(slab, segment, version)
                    filling.append(segment)
            elif act == "finish" and filling:
                segments.finish(filling.pop(0))
            elif act == "lose" and filling:
                segments.abandon(filling.pop(), "environment-failed")
            elif act == "die":
                segments.reclaim(0, 0, 8, "worker-lost")
                filling.clear()
            elif act == "take":
                chosen = segments.take(version)
                if chosen is not None:
                    assert (slab["segment/state"][chosen] == TRAINING).all()
                    assert (version - segments.oldest_version(chosen) <= eta).all()
                    version += 1
                    trained = int(slab["steps"][chosen].sum())
                    segments.commit(chosen, version=version, trained=trained, staleness=(0, 1, 0))
            alive = int(np.count_nonzero(slab["segment/state"] != FREE))
            assert slab["started"][0] == version * PER_BATCH + alive
            assert slab["env/started"].sum() == slab["started"][0]
            assert slab["started"][0] <= (eta + version + 1) * PER_BATCH
            assert read_ledger(slab, segments).balance == 0
    finally:
        slab.close()
