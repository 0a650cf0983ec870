"""What handing over costs is added where it belongs, and only where enough of it was seen."""

from __future__ import annotations

import msgspec
import pytest

from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.runtime.profiling.rehearse import corrected, rehearse
from ebrl.runtime.watch.window import StageWindow
from tests.runtime.support import GRAPHS
from tests.runtime.watch.worlds import ITEM_S, points


def seen(batch: float, work_s: float, firings: int = 1000) -> StageWindow:
    return StageWindow(
        firings=firings,
        items=round(firings * batch),
        work_s=work_s,
        batch=batch,
        p50_s=work_s * batch,
        p95_s=work_s * batch,
        busy=0.5,
        queue=0.0,
    )


def test_a_wake_costs_the_same_for_one_answer_as_for_many_and_a_step_its_part():
    program = check(load_graph(GRAPHS / "cartpole.py"))
    before = {point.place: point for point in points()}
    wake = 3e-4
    windows = {
        "simulate": seen(6.0, 1.2 * ITEM_S["simulate"]),
        "generate": seen(4.0, (ITEM_S["generate"] * 8 + wake) / 4),
        "train": seen(512, 0.9 * ITEM_S["train"]),
    }
    for point in corrected(program, points(), windows):
        was = before[point.place].median_s
        expected = {"simulate": 1.2 * was, "generate": was + wake, "train": 0.9 * was}
        assert point.median_s == pytest.approx(expected[point.stage])
        assert point.p95_s >= point.median_s
        assert "handing over" in point.note


def test_too_little_or_too_strange_changes_nothing():
    program = check(load_graph(GRAPHS / "cartpole.py"))
    windows = {
        "simulate": seen(6.0, 1.2 * ITEM_S["simulate"], firings=3),
        "train": seen(512, 50 * ITEM_S["train"]),
    }
    assert corrected(program, points(), windows) == points()
    assert corrected(program, points(), {}) == points()


def test_a_rehearsal_runs_the_real_thing_and_leaves_nothing():
    program = check(load_graph(GRAPHS / "cartpole.py"))
    found = rehearse(program, points(simulate=1e-5, generate=1e-5, train=1e-5), 4 * 755)
    assert set(found) == {"simulate", "generate", "train"}
    assert all(window.firings > 10 and 0 < window.work_s < 0.1 for window in found.values())
    synchronous = msgspec.structs.replace(
        program, training=msgspec.structs.replace(program.training, max_staleness=0)
    )
    assert rehearse(synchronous, points(), 4 * 755) == {}
