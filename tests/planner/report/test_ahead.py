"""The simulation's section: a timeline, why it differs from the plan, and other schedules."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ebrl.errors import PlanError
from ebrl.planner.report import ahead, page
from tests.planner.foresight.pipelines import random_plan
from tests.planner.report.material import Page

ROWS = [
    {"strategy": "collocated", "throughput_env_steps_per_s": 100.0, "speedup": 1.0},
    {"strategy": "async-shards", "throughput_env_steps_per_s": None},
    {"strategy": "ours", "throughput_env_steps_per_s": 150.0, "speedup": 1.5},
    {"strategy": "bound", "throughput_env_steps_per_s": 160.0, "speedup": 1.6},
]


@pytest.fixture(scope="module")
def section() -> ahead.Ahead:
    return ahead.ahead(random_plan(41))


def test_every_stage_has_lanes_within_the_picture(section: ahead.Ahead):
    assert section.remark == ""
    assert {lane.name.split()[0] for lane in section.lanes} == {"simulate", "generate", "train"}
    for lane in section.lanes:
        ends = [part.start + part.width for part in lane.segments]
        assert all(0 < end <= 100.001 for end in ends)
        assert "of the time" in lane.says


def test_the_page_shows_it_and_the_comparison(tmp_path: Path):
    path = tmp_path / "compare.json"
    path.write_bytes(msgspec.json.encode({"rows": ROWS, "best_other": "collocated", "more": 1}))
    text = page.render(random_plan(41), None, ahead.read_comparison(path))
    assert Page(text).faults == []
    for word in ("Timeline", "1.50×", "nothing fits", "Learner waits", "bound 160 steps/s"):
        assert word in text


def test_no_comparison_is_refused_with_the_way_to_one(tmp_path: Path):
    path = tmp_path / "compare.json"
    path.write_text("{}")
    with pytest.raises(PlanError, match="no comparison") as caught:
        ahead.read_comparison(path)
    assert "ebrl compare" in str(caught.value)
