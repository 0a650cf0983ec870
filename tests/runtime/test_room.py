"""Every worker that a run can come to have has a row of its own, now and after any switch."""

from __future__ import annotations

from ebrl.planner.layout import SPARE_WORKERS
from ebrl.runtime.emulation import setup
from ebrl.runtime.room import Room, room_of
from tests.runtime.emulated_plans import workload
from tests.runtime.watch.worlds import plan


def test_no_two_workers_share_a_row_and_no_row_is_left_over():
    room = Room(train=2, generate=3, simulate=5)
    rows = [room.row(role, n) for role, most in room.most().items() for n in range(most)]
    assert sorted(rows) == list(range(room.rows))
    assert len(room.names()) == room.rows == 10


def test_a_run_has_the_rows_that_its_shared_memory_was_reckoned_with():
    made = plan()
    workers = sum(len(stage.replicas) for stage in made.stages)
    assert room_of(made).rows == workers + SPARE_WORKERS


def test_an_emulation_has_room_for_a_rank_on_every_device_and_twice_the_simulators():
    made = workload("pi05_libero")
    room = setup.room(made)
    assert room.train >= 8
    assert room.generate >= 8
    simulators = len(made.of_kind("simulate")[0].replicas)
    assert room.simulate >= min(2 * simulators, made.environments.count)
