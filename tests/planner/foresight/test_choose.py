"""Environments are chosen by what a simulation sees, and only where they may be chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.planner.cluster import parse
from ebrl.planner.foresight.choose import Foreseen, choose
from ebrl.planner.model.request import CompileOptions, parse_pin
from ebrl.planner.proof.verify import verify
from ebrl.planner.shipped import shipped

ROOT = Path(__file__).resolve().parents[3]
QUICK = CompileOptions(alternatives=False)


@pytest.fixture(scope="module")
def program():
    return check(load_graph(ROOT / "graphs/pi05_libero.py"))


def test_the_fastest_in_the_simulation_is_taken(program):
    heard: list[Foreseen] = []
    plan, seen = choose(program, parse("a100x8"), shipped(program), QUICK, heard.append)
    assert verify(plan) == ()
    assert plan.pins == ()
    assert sorted(map(id, heard)) == sorted(map(id, seen))
    rates = [each.foreseen_env_steps_per_s for each in seen]
    assert rates == sorted(rates, reverse=True)
    assert plan.environments.count == seen[0].environments
    first = heard[0]  # what would have been planned without asking: the best by its promise
    assert first.predicted_env_steps_per_s == max(e.predicted_env_steps_per_s for e in seen)
    assert rates[0] > 1.05 * first.foreseen_env_steps_per_s


@pytest.mark.parametrize(
    "options",
    [
        CompileOptions(alternatives=False, max_staleness=0),
        CompileOptions(alternatives=False, pins=(parse_pin("simulate.environments=64"),)),
    ],
)
def test_where_the_number_is_given_nothing_is_tried(program, options):
    plan, seen = choose(program, parse("a100x8"), shipped(program), options)
    assert seen == ()
    assert verify(plan) == ()
