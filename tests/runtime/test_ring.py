"""A worker's ring keeps the last of what it did, whole, whoever dies when."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ebrl.runtime import ring
from ebrl.runtime.ring import Ring, join, path_of, read


def make(path: Path, records: int) -> tuple[Ring, np.ndarray]:
    version = np.zeros(1, np.int64)
    return Ring(path, records, version), version


def test_what_is_added_is_read_in_order_with_the_version_of_its_time(tmp_path: Path):
    kept, version = make(tmp_path / "a.ring", 8)
    kept.add(10, 20, 3)
    version[0] = 7
    kept.add(20, 40, 5)
    rows, dropped = read(tmp_path / "a.ring")
    assert rows.tolist() == [[10, 20, 3, 0], [20, 40, 5, 7]]
    assert not dropped


@pytest.mark.parametrize("added", [7, 8, 9, 20, 8000])
def test_the_last_are_kept_in_order_where_there_were_more(tmp_path: Path, added: int):
    kept, _ = make(tmp_path / "a.ring", 8)
    for number in range(added):
        kept.add(number, number + 1, number)
    rows, dropped = read(tmp_path / "a.ring")
    assert rows[:, ring.ITEMS].tolist() == list(range(added - 7, added))
    assert dropped == (added > 7)  # one place may have been half written


def test_who_takes_over_goes_on_behind_the_last_whole_record(tmp_path: Path):
    first, _ = make(tmp_path / "a.ring", 8)
    first.add(0, 1, 1)
    # It dies as it writes the next: the record is half there, and not counted.
    ring.RECORD.pack_into(first._map, ring.HEAD_BYTES + ring.RECORD.size, 99, 0, 0, 0)
    second, _ = make(tmp_path / "a.ring", 8)
    second.add(5, 6, 2)
    rows, _ = read(tmp_path / "a.ring")
    assert rows[:, ring.ITEMS].tolist() == [1, 2]


def write_on(path: Path) -> None:
    kept, _ = make(path, 64)
    number = 0
    while True:
        number += 1
        kept.add(number, 2 * number, 3 * number)


def test_a_writer_that_is_killed_in_the_middle_leaves_whole_records(tmp_path: Path):
    path = tmp_path / "a.ring"
    writer = multiprocessing.get_context("spawn").Process(target=write_on, args=(path,))
    writer.start()
    while not path.exists() or len(read(path)[0]) < 63:
        time.sleep(0.01)
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    rows, dropped = read(path)
    assert dropped
    numbers = rows[:, ring.BEGIN_NS]
    assert numbers.tolist() == list(range(numbers[0], numbers[0] + 63))
    assert (rows[:, ring.END_NS] == 2 * numbers).all()
    assert (rows[:, ring.ITEMS] == 3 * numbers).all()


def test_a_file_that_was_not_finished_holds_nothing(tmp_path: Path):
    path = tmp_path / "a.ring"
    for size in (0, 8, ring.HEAD_BYTES, ring.HEAD_BYTES + 40):
        path.write_bytes(b"\0" * size)
        assert len(read(path)[0]) == 0


def test_records_leave_nothing_allocated(tmp_path: Path):
    kept, _ = make(tmp_path / "a.ring", 64)
    kept.add(10**15, 10**15, 1)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1000):
            kept.add(10**15 + number, 10**15 + number, 1)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 512


def test_a_worker_that_is_not_traced_makes_nothing(tmp_path: Path):
    assert join(tmp_path, "simulate 0", 0, np.zeros(1, np.int64), pytest.fail) is None
    assert list(tmp_path.iterdir()) == []


def test_where_there_is_no_room_it_is_told_and_the_worker_goes_on(tmp_path: Path):
    told: list[str] = []
    path_of(tmp_path, "simulate 0").parent.touch()  # a file where the folder should be
    assert join(tmp_path, "simulate 0", 8, np.zeros(1, np.int64), told.append) is None
    assert "simulate 0" in told[0]
