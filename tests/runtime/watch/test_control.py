"""What a worker is told through the slab: whole rows, once, never torn."""

from __future__ import annotations

import numpy as np

from ebrl.planner.layout import CONTROL_SEQUENCE
from ebrl.runtime.watch.control import Orders, Settings, tell
from tests.runtime.support import pool, program


def test_a_row_is_news_once_and_only_to_its_worker():
    slab, _ = pool(program(), environments=2)
    mine, others = Orders(slab, 1), Orders(slab, 0)
    assert mine.news() is None
    tell(slab, 1, Settings(batch=8, active=3))
    assert mine.news() == Settings(batch=8, active=3)
    assert mine.news() is None
    assert others.news() is None
    assert Orders(slab, 1).news() == Settings(batch=8, active=3)  # whoever takes over the post


def test_a_row_that_is_being_written_is_left_for_the_next_round():
    slab, _ = pool(program(), environments=2)
    mine = Orders(slab, 1)
    tell(slab, 1, Settings(batch=8))
    slab["control"][1, CONTROL_SEQUENCE] += 1
    slab["control"][1, 1:] = np.int64(99)
    assert mine.news() is None
    slab["control"][1, CONTROL_SEQUENCE] += 1
    assert mine.news() == Settings(99, 99, 99, 99)
