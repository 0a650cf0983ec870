"""What a generate worker answers, in which batches, with which weights."""

from __future__ import annotations

import numpy as np

from ebrl.runtime.generate import Generate
from ebrl.runtime.segments import NEEDS_ACTION, NEEDS_STEP, PARKED
from ebrl.runtime.weights import Weights
from tests.runtime.support import Echo, pool, program


def bench(*, environments=6, batch=6, max_staleness=1, groups=()):
    slab, segments = pool(
        program(batch=4 * environments, max_staleness=max_staleness),
        environments=environments,
        weights_bytes=4,
    )
    weights = Weights(slab)
    weights.begin(0)[:] = 0.5
    weights.publish(0)
    body = Echo()
    for env in range(environments):
        segment = segments.start(env)
        slab["env/segment"][env] = segment
        slab["obs/"][segment, 0] = env
    slab["env/state"][:] = NEEDS_ACTION
    worker = Generate(
        slab, segments, body, first=0, last=environments, batch=batch, groups=groups, seed=1
    )
    return slab, weights, body, worker


def test_everybody_who_waits_is_answered_with_the_newest_weights() -> None:
    slab, _, _, worker = bench()
    assert worker.serve().tolist() == [0, 1, 2, 3, 4, 5]
    rows = slab["action"][slab["env/segment"], 0, 0]
    np.testing.assert_allclose(rows, np.arange(6) + 0.5)
    assert (slab["version"][slab["env/segment"], 0] == 0).all()
    assert (slab["env/state"] == NEEDS_STEP).all()
    assert worker.serve().size == 0


def test_new_weights_are_used_from_the_next_batch_on_and_recorded() -> None:
    slab, weights, _, worker = bench()
    worker.serve()
    weights.begin(1)[:] = 0.0
    weights.publish(1)
    slab["env/state"][:] = NEEDS_ACTION
    slab["env/cursor"][:] = 1
    worker.serve()
    assert (slab["version"][slab["env/segment"], 1] == 1).all()
    assert (slab["action"][slab["env/segment"], 1] == 0).all()  # observations there are zero


def test_nobody_is_served_twice_before_another_is_served_once() -> None:
    slab, _, body, worker = bench(environments=6, batch=4)
    served = []
    for _ in range(6):
        served.append(worker.serve().tolist())
        slab["env/state"][:] = NEEDS_ACTION
    assert body.batches == [4] * 6
    counts = np.bincount([env for batch in served for env in batch], minlength=6)
    assert counts.max() - counts.min() <= 1


def test_who_is_being_stepped_or_is_parked_is_left_alone() -> None:
    slab, _, _, worker = bench()
    slab["env/state"][[1, 4]] = NEEDS_STEP
    slab["env/state"][2] = PARKED
    assert worker.serve().tolist() == [0, 3, 5]


def test_without_staleness_a_group_is_answered_whole_or_not_yet() -> None:
    slab, _, _, worker = bench(environments=4, max_staleness=0, groups=((0, 2), (2, 4)))
    slab["env/state"][1] = NEEDS_STEP
    assert worker.serve().tolist() == [2, 3]
    assert worker.serve().size == 0
    slab["env/state"][1] = NEEDS_ACTION
    assert worker.serve().tolist() == [0, 1]


def test_without_staleness_one_that_may_start_again_is_waited_for() -> None:
    slab, weights, _, worker = bench(environments=2, max_staleness=0, groups=((0, 2),))
    slab["env/state"][1] = PARKED  # has used up its share of version 0
    assert worker.serve().tolist() == [0]
    slab["env/state"][0] = NEEDS_ACTION
    weights.begin(1)[:] = 0.0
    weights.publish(1)
    assert worker.serve().size == 0


def test_noise_follows_the_decisions_of_the_environment() -> None:
    slab, _, _, worker = bench(environments=2)
    worker.serve()
    first = slab["log_prob"][slab["env/segment"], 0].copy()
    slab["env/state"][:] = NEEDS_ACTION
    worker.serve()
    assert slab["env/decisions"].tolist() == [2, 2]
    assert (slab["log_prob"][slab["env/segment"], 0] != first).all()
