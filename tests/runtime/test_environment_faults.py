"""One environment that fails is built anew; its segment is thrown away, the others go on."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from ebrl.errors import RunError
from ebrl.runtime.ledger import read as read_ledger
from ebrl.runtime.seats import Rules
from ebrl.runtime.segments import ABSENT, FREE, READY
from tests.runtime.support import Countdown
from tests.runtime.test_simulate import Bench


class Fails(Countdown):
    """Raises once, at its n-th step or reset, what it is given."""

    def __init__(self, length: int, *, step: int = 0, reset: int = 0, error: BaseException) -> None:
        super().__init__(length)
        self.left = {"step": step, "reset": reset}
        self.error = error

    def count(self, call: str) -> None:
        self.left[call] -= 1
        if self.left[call] == 0:
            raise self.error

    def step(self, action, obs):
        self.count("step")
        return super().step(action, obs)

    def reset(self, seed, obs):
        self.count("reset")
        super().reset(seed, obs)


def bench(bodies, makes=None, **shape) -> Bench:
    made = Bench([], count=len(bodies), **shape)
    for body, make in zip(bodies, makes or [None] * len(bodies), strict=True):
        made.worker.add(body, make or (lambda: Countdown(50)))
    made.worker.sweep()
    return made


def body_of(one: Bench, seat: int) -> Any:
    return one.worker._seats[seat].body


ERRORS = [
    RuntimeError("the gripper is on fire"),
    RunError("environment", "the reward is nan", where="environment X, port transition"),
    SystemExit(0),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("call", [{"step": 6}, {"reset": 2}, {"reset": 1}])
def test_it_is_told_its_segment_is_thrown_away_and_the_others_go_on(error, call) -> None:
    one = bench([Fails(5, error=error, **call), Countdown(50)], batch=64)
    for _ in range(12):
        one.go(1)
        assert read_ledger(one.slab, one.segments).balance == 0
    (failure,) = one.worker.failures
    assert failure.environment == 0
    assert (str(error) in failure.message) or ("nan" in failure.message)
    ledger = read_ledger(one.slab, one.segments)
    assert ledger.discarded["environment-failed"] == failure.steps
    assert body_of(one, 1).at == 12
    assert one.slab["env/lives"].tolist() == [1, 0]
    assert body_of(one, 0).at > 0  # a new one, in the same place


def test_a_full_segment_is_kept_when_the_reset_after_it_fails() -> None:
    one = bench([Fails(4, reset=2, error=RuntimeError("stuck")), Countdown(50)], batch=64)
    one.go(6)
    assert len(one.finished()) == 2  # its own first four steps, and the other's
    assert one.worker.failures[0].steps == 0
    assert read_ledger(one.slab, one.segments).balance == 0


def test_a_new_life_takes_another_seed() -> None:
    first = Fails(50, step=2, error=RuntimeError("x"))
    second = Countdown(50)
    one = bench([first], [lambda: second], batch=64)
    one.go(4)
    assert first.seeds[0] != second.seeds[0]
    assert second.seeds[0] is not None


def test_one_that_fails_again_and_again_is_tried_more_and_more_rarely() -> None:
    def make():
        return Fails(50, step=1, error=RuntimeError("again"))

    one = bench([make()], [make], batch=64)
    deadline = time.monotonic() + 0.7
    while time.monotonic() < deadline:
        one.go(1)
        time.sleep(0.001)
    assert 3 <= len(one.worker.failures) <= 5
    assert one.slab["env/state"][0] == ABSENT
    assert (one.slab["segment/state"] == FREE).all()


def test_several_that_failed_are_built_one_by_one_and_the_rest_steps_half_of_the_time() -> None:
    build_s = 0.03
    built: list[float] = []

    def make():
        built.append(time.monotonic())
        time.sleep(build_s)
        return Countdown(900)

    healthy = Fails(900, error=RuntimeError("never"))  # counts its steps down from nought
    bodies = [Fails(900, step=2, error=RuntimeError("x")) for _ in range(3)] + [healthy]
    one = bench(bodies, [make] * 4, batch=4096)
    one.go(1)
    at = [-healthy.left["step"]]
    while len(built) < 3:
        one.go(1)
        full = np.flatnonzero(one.slab["segment/state"] == READY)
        one.segments.discard(full, "interrupted")  # else there is soon none to be filled
        if len(at) <= len(built):
            at.append(-healthy.left["step"])
    one.go(1)
    gaps = [after - before for before, after in itertools.pairwise(built)]
    assert all(gap >= 1.9 * build_s for gap in gaps)
    assert all(after > before + 3 for before, after in itertools.pairwise(at[1:]))
    assert all(body_of(one, seat).at > 0 for seat in range(3))
    assert read_ledger(one.slab, one.segments).balance == 0


def test_one_that_cannot_be_built_again_is_a_failure_too() -> None:
    tries = []

    def make():
        tries.append(1)
        if len(tries) < 2:
            raise OSError("no device")
        return Countdown(50)

    one = bench([Fails(50, step=2, error=RuntimeError("x"))], [make], batch=64)
    one.go(8)
    assert [failure.message for failure in one.worker.failures] == [
        "RuntimeError: x",
        "OSError: no device",
    ]
    assert body_of(one, 0).at > 0


def test_a_leaky_environment_is_built_anew_every_so_many_episodes() -> None:
    made = [Countdown(3)]

    def make():
        made.append(Countdown(3))
        return made[-1]

    one = bench(made, [make], batch=256, rules=Rules(recycle_every=2))
    one.go(20)
    assert [body.episode for body in made[:3]] == [2, 2, 2]
    assert all(body.closed for body in made[:2])
    assert one.worker.failures == []
    assert len({body.seeds[0] for body in made}) == len(made)
    assert read_ledger(one.slab, one.segments).balance == 0


def test_in_a_synchronous_run_episodes_begin_anew_at_every_version_it_can_go_on_from() -> None:
    """And with the seed that a run that goes on from there takes."""

    def seeds(version: int) -> tuple[list[int | None], list[int]]:
        body = Countdown(100)
        one = Bench([], count=1, batch=8, max_staleness=0, rules=Rules(anew_every=2))
        one.slab["weights/version"][0] = version
        one.slab["version"][:] = version
        one.slab["started"][0] = one.slab["env/started"][0] = 2 * version
        one.worker.add(body)
        episodes = []
        while one.slab["weights/version"][0] < 5:
            for _ in range(12):
                one.go(1)
            now = int(one.slab["weights/version"][0])
            chosen = one.segments.take(now)
            one.slab["version"][:] = now + 1
            one.segments.commit(chosen, version=now + 1, trained=8, staleness=(0, 8, 0))
            episodes.append(body.episode)
        return body.seeds, episodes

    whole, episodes = seeds(0)
    assert episodes == [1, 1, 2, 2, 3]  # versions 0 to 4; anew at 2 and 4
    resumed, _ = seeds(2)
    assert resumed == whole[1:]
    assert None not in whole
    assert len(set(whole)) == 3


def test_a_worker_that_drains_fills_what_it_has_and_starts_nothing() -> None:
    one = bench([Countdown(50), Countdown(50)], batch=64)
    one.go(2)
    one.worker.draining = True
    one.go(8)
    assert one.worker.idle
    assert len(one.finished()) == 2
    assert np.all(one.slab["steps"][one.finished()] == 1)


def test_neighbours_begin_alike_and_a_segment_is_one_episode() -> None:
    bodies = [Countdown(length) for length in (2, 3, 9, 4)]
    rules = Rules(alike=2, whole_episodes=True)
    one = Bench(bodies, rules=rules, batch=64)
    one.go(14)
    seeds = [body.seeds for body in bodies]
    assert seeds[0][:3] == seeds[1][:3]
    assert seeds[2][:3] == seeds[3][:3]
    assert len({*seeds[0][:3], *seeds[2][:3]}) == 6
    assert all(seed is not None for seeds_of in seeds for seed in seeds_of)
    for segment in one.finished():
        environment = int(one.slab["segment/environment"][segment])
        made = min(bodies[environment].length, 4)  # longer than a segment: cut
        assert one.slab["steps"][segment].tolist() == [1] * made + [0] * (4 - made)
        assert one.obs(segment)[0] % 1000 == 0
    assert read_ledger(one.slab, one.segments).balance == 0
