"""Other systems' schedules: all are there, on the same times, and none beats the bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebrl.errors import PlanError
from ebrl.planner.foresight import picture
from ebrl.planner.foresight.candidates import candidates, overdrawn
from ebrl.planner.foresight.compare import Comparison, check_names, compare
from ebrl.planner.foresight.strategies import OTHERS, all_strategies
from ebrl.planner.hardware import Cluster, NodeClass
from ebrl.planner.model.request import CompileOptions
from tests.planner.model.cases import GB, device, pipeline, point

NAMES = [
    "collocated", "disaggregated", "hybrid", "async-barrier", "async-shards",
    "ours-no-sm", "ours-no-per-env", "ours-no-core-pool", "ours", "bound",
]  # fmt: skip
CLUSTER = Cluster(
    text="devx2",
    nodes=(
        NodeClass(
            name="devx2", count=1, cores=4, ram_bytes=512 * GB, device=device(sms=2), devices=2
        ),
    ),
)
PROGRAM = pipeline(
    envs=(16, 16), horizon=2, batch=64, max_staleness=1,
    runs_on={"simulate": ("cpu",), "generate": ("gpu",), "train": ("gpu",)},
)  # fmt: skip
POINTS = (
    point("simulate", 1, 4e-3),
    point("simulate", 32, 0.128, size=132_000_000),
    *(
        point(stage, batch, base + each * batch * 2 / sms, device="dev", sms=sms)
        for stage, batches, base, each in (
            ("generate", (1, 4, 16, 32), 4e-3, 1e-4),
            ("train", (16, 32, 64), 2e-3, 2e-4),
        )
        for batch in batches
        for sms in (1, 2)
    ),
)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(PROGRAM, CLUSTER, POINTS)


def test_every_strategy_has_a_row_and_none_beats_the_bound(comparison: Comparison):
    assert [row.strategy for row in comparison.rows] == NAMES
    bound = comparison.rows[-1].throughput_env_steps_per_s
    assert bound is not None
    for row in comparison.rows[:-1]:
        assert row.throughput_env_steps_per_s is not None, row
        assert 0 < row.throughput_env_steps_per_s <= bound * 1.01
        assert row.simulated
        assert row.what
        assert row.source


def test_speedups_are_over_the_best_of_the_others(comparison: Comparison):
    best = next(row for row in comparison.rows if row.strategy == comparison.best_other)
    assert best.speedup == 1.0
    others = comparison.rows[: len(OTHERS)]
    assert max(row.speedup or 0.0 for row in others) == 1.0


def test_synchronous_schedules_train_on_what_is_fresh(comparison: Comparison):
    for row in comparison.rows[:3]:
        assert row.staleness == 0.0


def test_a_restriction_keeps_to_its_placements():
    by_name = {strategy.name: strategy for strategy in all_strategies()}
    plans = list(candidates(by_name["disaggregated"], PROGRAM, CLUSTER, POINTS, CompileOptions()))
    assert plans
    for plan in plans:
        places = [
            (r.node, r.device) for s in plan.stages for r in s.replicas if r.device is not None
        ]
        assert len(places) == len(set(places))
        assert plan.schedule == "synchronous"
    kept = candidates(by_name["ours-no-core-pool"], PROGRAM, CLUSTER, POINTS, CompileOptions())
    assert all(overdrawn(plan) <= 0 for plan in kept)


def test_the_picture_is_the_same_each_time(comparison: Comparison, tmp_path: Path):
    for name in ("a.svg", "b.svg"):
        picture.draw(comparison, tmp_path / name, "devx2")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    text = (tmp_path / "a.svg").read_text()
    assert all(name in text for name in NAMES[:-1])


def test_a_picture_of_no_format_is_refused(tmp_path: Path):
    with pytest.raises(PlanError, match="names no format"):
        picture.check(tmp_path / "bars.gif2")


def test_an_unknown_strategy_is_refused_with_the_known_ones():
    with pytest.raises(PlanError, match="is no strategy") as caught:
        check_names(["colocated"])
    assert "collocated" in str(caught.value)
