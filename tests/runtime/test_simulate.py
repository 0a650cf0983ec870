"""What a simulate worker writes into segments, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from ebrl.runtime.ledger import read as read_ledger
from ebrl.runtime.seats import Rules
from ebrl.runtime.segments import NEEDS_ACTION, NEEDS_STEP, PARKED, READY
from ebrl.runtime.simulate import Simulate
from tests.runtime.support import Countdown, pool, program


class Bench:
    """A simulate worker with a stand-in policy that answers everybody at once."""

    def __init__(self, bodies, count=None, rules=None, **shape):
        count = len(bodies) if count is None else count
        self.rung = {"generate": 0, "learner": 0}
        self.slab, self.segments = pool(program(**shape), environments=count)
        self.worker = Simulate(
            self.slab,
            self.segments,
            worker=0,
            first=0,
            count=count,
            group=2,
            seed=9,
            ring_generate=lambda: self.ring("generate"),
            ring_learner=lambda: self.ring("learner"),
            rules=rules or Rules(),
        )
        for body in bodies:
            self.worker.add(body)
        self.worker.sweep()

    def ring(self, who):
        self.rung[who] += 1

    def answer(self):
        waiting = self.slab["env/state"] == NEEDS_ACTION
        self.slab["env/state"][waiting] = NEEDS_STEP
        return int(waiting.sum())

    def go(self, sweeps):
        for _ in range(sweeps):
            self.answer()
            self.worker.sweep()

    def finished(self):
        state = self.slab["segment/state"]
        ready = np.flatnonzero(state == READY)
        return ready[np.argsort(self.slab["segment/order"][ready])]

    def obs(self, segment):
        return self.slab["obs/"][segment, :, 0].tolist()


def test_consecutive_segments_share_the_observation_between_them() -> None:
    bench = Bench([Countdown(100)])
    bench.go(8)
    first, second = bench.finished()
    assert bench.obs(first) == [1000, 1001, 1002, 1003, 1004]
    assert bench.obs(second) == [1004, 1005, 1006, 1007, 1008]
    assert bench.slab["reward"][first, :, 0].tolist() == [1001, 1002, 1003, 1004]
    assert bench.slab["steps"][first].tolist() == [1, 1, 1, 1]


def test_the_final_observation_takes_a_masked_row_and_the_next_episode_follows_it() -> None:
    bench = Bench([Countdown(2)])
    bench.go(6)
    first = bench.finished()[0]
    assert bench.obs(first)[:4] == [1000, 1001, 1002, 2000]
    assert bench.slab["steps"][first].tolist() == [1, 1, 0, 1]
    assert bench.slab["terminated"][first, 1]
    assert not bench.slab["truncated"][first, 1]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7])
def test_no_step_no_reward_and_no_observation_is_lost_whatever_the_episode_length(length) -> None:
    body = Countdown(length, truncates=True)
    bench = Bench([body], horizon=4, batch=64)
    bench.go(24)
    rewards: list[float] = []
    for segment in bench.finished():
        steps = bench.slab["steps"][segment]
        obs = bench.obs(segment)
        for row in np.flatnonzero(steps):
            reward = float(bench.slab["reward"][segment, row, 0])
            assert obs[row + 1] == reward  # the observation after it, final or not
            assert obs[row] == reward - 1  # the one before it
            rewards.append(reward)
            assert bool(bench.slab["truncated"][segment, row]) == (reward % 1000 == length)
    episodes, steps = divmod(len(rewards), length)
    expected = [1000.0 * (e + 1) + s for e in range(episodes + 1) for s in range(1, length + 1)]
    assert rewards == expected[: len(rewards)]
    assert len(rewards) >= 20
    assert steps >= 0


def test_a_chunk_is_executed_until_the_episode_ends_and_no_further() -> None:
    bench = Bench([Countdown(5)], chunk=3, horizon=4, batch=48)
    bench.go(4)
    segment = 0
    assert bench.slab["steps"][segment].tolist() == [3, 2, 0, 3]
    assert bench.slab["reward"][segment, 1].tolist() == [1004, 1005, 0]
    assert bench.obs(segment)[:4] == [1000, 1003, 1005, 2000]


def test_a_parked_environment_goes_on_from_its_own_observation() -> None:
    bench = Bench([Countdown(100)], horizon=4, batch=4, max_staleness=1)
    bench.go(20)
    assert bench.slab["env/state"][0] == PARKED
    first, second = bench.finished()
    bench.slab["obs/"][second] = -1  # its old segment belongs to somebody else now
    chosen = bench.segments.take(0)
    assert chosen.tolist() == [first]
    bench.segments.release(chosen)
    bench.slab["weights/version"][0] = 1
    bench.go(3)
    assert bench.obs(int(bench.slab["env/segment"][0]))[:2] == [1008, 1009]


def test_environments_do_not_wait_for_each_other() -> None:
    bench = Bench([Countdown(100), Countdown(100)], batch=64)
    for _ in range(6):  # the second environment never gets an action
        bench.slab["env/state"][0] = NEEDS_STEP
        bench.worker.sweep()
    assert bench.slab["produced"][0, 0] == 6
    assert bench.slab["env/cursor"].tolist()[1] == 0


def test_the_policy_is_rung_once_a_group_and_when_nothing_is_left() -> None:
    bench = Bench([Countdown(100) for _ in range(6)], batch=64)
    bench.rung["generate"] = 0
    bench.go(1)
    assert 1 <= bench.rung["generate"] <= 3
    before = bench.rung["generate"]
    bench.worker.sweep()  # nothing is ready, nothing is new
    assert bench.rung["generate"] == before


def test_environments_get_independent_seeds_and_only_once() -> None:
    bodies = [Countdown(2), Countdown(3)]
    bench = Bench(bodies, batch=64)
    bench.go(9)
    first = [body.seeds[0] for body in bodies]
    assert None not in first
    assert len(set(first)) == 2
    assert all(seed is None for body in bodies for seed in body.seeds[1:])


def test_an_episode_is_reported_with_the_sum_of_its_rewards_and_its_success() -> None:
    bench = Bench([Countdown(3)], batch=64)
    bench.go(3)
    (episode,) = bench.worker.episodes
    assert (episode.reward, episode.length, episode.success) == (1001 + 1002 + 1003, 3, True)


def test_the_ledger_balances_after_any_number_of_steps() -> None:
    bench = Bench([Countdown(3), Countdown(5), Countdown(1)], batch=32)
    for _ in range(40):
        bench.go(1)
        assert read_ledger(bench.slab, bench.segments).balance == 0


def test_in_steady_state_stepping_allocates_nothing_that_stays() -> None:
    import tracemalloc

    bench = Bench([Countdown(7), Countdown(9)], batch=32)

    def turn() -> None:
        bench.go(1)
        chosen = bench.segments.take(int(bench.slab["weights/version"][0]))
        if chosen is not None:
            bench.slab["weights/version"][0] += 1
            bench.slab["version"][:] = bench.slab["weights/version"][0]
            bench.segments.release(chosen)
        bench.worker.episodes.clear()

    for _ in range(400):
        turn()
    tracemalloc.start()
    turn()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(400):
        turn()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000
