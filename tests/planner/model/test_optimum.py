"""The model's optimum against trying everything, and against its own bound."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from ebrl.planner.binding.bind import bind
from ebrl.planner.model import patterns, search
from ebrl.planner.model.space import Space
from tests.planner.model import brute, worlds

RESOLUTION = 1e-7


def optimum(space: Space) -> tuple[float, float]:
    """(throughput after binding, bound) of the compiler's search."""
    relaxed = search.relax(space)
    assert relaxed.feasible
    found = search.best(relaxed, time_limit_s=60, resolution=RESOLUTION)
    if found.allocation is None:
        return 0.0, found.bound
    binding, bound = bind(relaxed, found, resolution=RESOLUTION, time_limit_s=60)
    return binding.throughput, min(bound, relaxed.bound)


@pytest.mark.parametrize("block", range(10))
def test_the_optimum_is_that_of_trying_everything(block):
    for seed in range(20 * block, 20 * block + 20):
        space = worlds.space(seed)
        expected = brute.best(space)
        value, bound = optimum(space)
        assert value == pytest.approx(expected, rel=2e-6, abs=1e-9), f"seed {seed}"
        assert bound >= expected * (1 - 1e-6), f"seed {seed}"


@pytest.mark.parametrize("block", range(4))
def test_patterns_found_by_pricing_are_as_good_as_listing_them_all(block, monkeypatch):
    for seed in range(10 * block, 10 * block + 10):
        space = worlds.space(seed)
        listed, _ = optimum(space)
        with monkeypatch.context() as patch:
            patch.setattr(patterns, "LISTED", 0)
            priced, bound = optimum(space)
        assert priced == pytest.approx(listed, rel=2e-6, abs=1e-9), f"seed {seed}"
        assert bound >= listed * (1 - 1e-6), f"seed {seed}"


def nodes_of_their_own(space: Space) -> Space:
    """Each node a class of its own: then the program that counts devices is exact."""
    (each,) = space.classes
    alone = replace(each, node=msgspec.structs.replace(each.node, count=1))
    return replace(space, classes=(alone,) * each.node.count)


@pytest.mark.parametrize("block", range(4))
def test_what_is_proven_of_nodes_holds_for_the_best_of_all_plans(block):
    tightened = 0
    for seed in range(6 * block, 6 * block + 6):
        space = worlds.space(seed, devices=2, options=3)
        (each,) = space.classes
        assert space.mode is not None
        space = replace(
            space,
            classes=(replace(each, node=msgspec.structs.replace(each.node, count=2)),),
            mode=replace(space.mode, span="cluster", ranks=4),
        )
        exact, _ = optimum(nodes_of_their_own(space))
        relaxed = search.relax(space)
        found = search.best(relaxed, time_limit_s=60, resolution=RESOLUTION)
        if found.allocation is None:
            continue
        binding, bound = bind(relaxed, found, resolution=RESOLUTION, time_limit_s=60)
        assert binding.throughput <= exact * (1 + 1e-6), f"seed {seed}"
        assert bound >= exact * (1 - 1e-6), f"seed {seed}"
        tightened += bound < relaxed.bound * (1 - 1e-4)
    assert tightened
