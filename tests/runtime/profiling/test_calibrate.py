"""Calibration measures the real worker loops, in seconds, and remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebrl.errors import PlanError
from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.runtime.profiling.calibrate import calibrate
from ebrl.runtime.profiling.measure import weights_bytes
from tests.runtime.support import GRAPHS

GRAPH = GRAPHS / "cartpole.py"


def test_every_stage_is_measured_once_and_remembered(tmp_path: Path) -> None:
    program = check(load_graph(GRAPH))
    said: list[str] = []
    found = calibrate(
        program, GRAPH, cache=tmp_path, say=said.append, budget_s=0.5, rehearsed=False
    )
    assert {point.stage for point in found.points} == {"simulate", "generate", "train"}
    assert all(point.source == "measured" for point in found.points)
    assert all(0 < point.median_s <= point.p95_s for point in found.points)
    assert len(said) == 1
    step = next(p for p in found.points if p.stage == "simulate" and p.batch == 1)
    assert 1e-6 < step.median_s < 1e-3
    answers = sorted((p.batch, p.median_s) for p in found.points if p.stage == "generate")
    assert answers[-1][1] / answers[-1][0] < answers[0][1]  # a batch is cheaper than one by one
    (update,) = (p for p in found.points if p.stage == "train")
    assert update.batch == 512
    again = calibrate(
        program, GRAPH, cache=tmp_path, say=said.append, budget_s=0.5, rehearsed=False
    )
    assert again.cached
    assert again.points == found.points
    assert len(said) == 1


def test_the_bytes_of_the_weights_are_those_of_the_policy() -> None:
    program = check(load_graph(GRAPH))
    actor = 4 * 16 + 16 + 16 * 16 + 16 + 16 * 2 + 2
    critic = 4 * 16 + 16 + 16 * 16 + 16 + 16 * 1 + 1
    assert weights_bytes(program, GRAPH, None) == 4 * (actor + critic)


def test_a_stage_that_cannot_be_measured_is_told_in_its_own_words(tmp_path: Path) -> None:
    graph = tmp_path / "broken.py"
    graph.write_text((GRAPHS / "broken.py").read_text())
    program = check(load_graph(graph))
    with pytest.raises(PlanError, match="the gripper is on fire"):
        calibrate(program, graph, cache=None, say=lambda _: None, budget_s=0.5, rehearsed=False)
