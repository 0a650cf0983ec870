"""Balance equations, loops and buffers, on random dataflow graphs whose answer is known."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebrl.frontend.rates import (
    Flow,
    balance,
    capacity,
    deadlocks,
    least_capacity,
    loops,
    smallest,
)

# Machines that run several suites at once are slow; nothing here depends on time.
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
counts = st.integers(1, 12)
fractions = st.builds(Fraction, st.integers(1, 9), st.integers(1, 9))


def consistent() -> st.SearchStrategy[tuple[dict[str, Fraction], list[Flow]]]:
    """A repetition vector, and connected flows built to balance under it, from a seed."""
    return st.integers(0, 2**32).map(lambda seed: _built(Random(seed)))


def _built(random: Random) -> tuple[dict[str, Fraction], list[Flow]]:
    def rate() -> Fraction:
        return Fraction(random.randint(1, 9), random.randint(1, 9))

    size = random.randint(2, 7)
    names = [f"s{number}" for number in range(size)]
    firings = {name: rate() for name in names} | {"s0": Fraction(1)}
    joints = [(random.randrange(number), number) for number in range(1, size)]
    joints += [
        (random.randrange(size), random.randrange(size)) for _ in range(random.randint(0, 6))
    ]
    flows = []
    for joint in joints:
        if len(set(joint)) == 1:
            continue
        source, target = (names[each] for each in random.sample(joint, 2))
        produce, reuse = rate(), random.randint(1, 3)
        consume = firings[source] * produce * reuse / firings[target]
        flows.append(
            Flow(source=source, target=target, produce=produce, consume=consume, reuse=reuse)
        )
    return firings, flows


@quick
@given(consistent())
def test_a_consistent_graph_has_the_repetition_vector_it_was_built_from(
    built: tuple[dict[str, Fraction], list[Flow]],
):
    firings, flows = built
    found = balance(list(firings), flows, "s0")
    assert found.firings == firings
    assert found.conflicts == ()
    assert found.unreached == ()


@quick
@given(consistent(), fractions)
def test_scaling_both_rates_of_an_edge_changes_nothing(
    built: tuple[dict[str, Fraction], list[Flow]], factor: Fraction
):
    firings, flows = built
    scaled = [replace(f, produce=f.produce * factor, consume=f.consume * factor) for f in flows]
    found = balance(list(firings), scaled, "s0")
    assert found.firings == firings
    assert found.conflicts == ()


@quick
@given(consistent(), st.integers(0, 2**32))
def test_the_order_of_edges_does_not_matter(
    built: tuple[dict[str, Fraction], list[Flow]], seed: int
):
    firings, flows = built
    shuffled = list(flows)
    Random(seed).shuffle(shuffled)
    assert balance(list(firings), shuffled, "s0").firings == firings


@quick
@given(consistent(), st.data())
def test_a_rate_that_contradicts_the_others_is_found(
    built: tuple[dict[str, Fraction], list[Flow]], data: st.DataObject
):
    firings, flows = built
    flow = data.draw(st.sampled_from(flows))
    other = data.draw(fractions.filter(lambda each: each != 1))
    twin = replace(flow, produce=flow.produce * other, key=99)
    found = balance(list(firings), [*flows, twin], "s0")
    assert found.conflicts


@quick
@given(consistent())
def test_a_stage_that_nothing_joins_to_the_rest_is_unreached(
    built: tuple[dict[str, Fraction], list[Flow]],
):
    firings, flows = built
    assert balance([*firings, "alone"], flows, "s0").unreached == ("alone",)


@quick
@given(st.dictionaries(st.text("abc", min_size=1), fractions, min_size=1), fractions)
def test_the_smallest_whole_vector_keeps_proportions_and_has_no_common_divisor(
    firings: dict[str, Fraction], factor: Fraction
):
    whole = smallest(firings)
    ratios = {whole[name] / firings[name] for name in firings}
    assert len(ratios) == 1
    assert math.gcd(*whole.values()) == 1
    assert smallest({name: each * factor for name, each in firings.items()}) == whole


def ring(rates: list[tuple[int, int]], initial: list[int]) -> list[Flow]:
    names = [f"s{number}" for number in range(len(rates))]
    return [
        Flow(
            source=names[n],
            target=names[(n + 1) % len(names)],
            produce=Fraction(produce),
            consume=Fraction(consume),
            initial=start,
            key=n,
        )
        for n, ((produce, consume), start) in enumerate(zip(rates, initial, strict=True))
    ]


@quick
@given(st.integers(2, 6), st.integers(0, 5), st.integers(0, 3))
def test_a_ring_of_unit_rates_runs_if_and_only_if_it_holds_a_token(size: int, at: int, tokens: int):
    initial = [0] * size
    initial[at % size] = tokens
    flows = ring([(1, 1)] * size, initial)
    names = [flow.source for flow in flows]
    stuck = deadlocks(names, flows, dict.fromkeys(names, Fraction(1)))
    assert bool(stuck) == (tokens == 0)
    if stuck:
        assert stuck[0].empty
        assert {flow.key for flow in stuck[0].cycle} == set(range(size))


@quick
@given(counts, counts, st.integers(0, 30), st.integers(0, 30))
def test_a_pair_of_stages_runs_as_a_naive_token_game_says(p: int, c: int, there: int, back: int):
    """Firing one at a time, in any order that is possible, ends the iteration or gets stuck."""
    flows = ring([(p, c), (c, p)], [there, back])
    repetition = smallest({"s0": Fraction(1), "s1": Fraction(p, c)})
    tokens, left = [there, back], dict(repetition)
    fired = True
    while fired:
        fired = False
        if left["s0"] and tokens[1] >= p:
            tokens, fired = [tokens[0] + p, tokens[1] - p], True
            left["s0"] -= 1
        if left["s1"] and tokens[0] >= c:
            tokens, fired = [tokens[0] - c, tokens[1] + c], True
            left["s1"] -= 1
    stuck = deadlocks(["s0", "s1"], flows, {"s0": Fraction(1), "s1": Fraction(p, c)})
    assert bool(stuck) == bool(sum(left.values()))


def test_a_long_iteration_is_played_in_bulk():
    flows = ring([(1, 10**9), (10**9, 1)], [0, 10**9])
    firings = {"s0": Fraction(1), "s1": Fraction(1, 10**9)}
    assert deadlocks(["s0", "s1"], flows, firings) == []


def test_stages_without_a_loop_never_wait_for_each_other():
    flow = Flow(source="a", target="b", produce=Fraction(1), consume=Fraction(7))
    assert loops(["a", "b"], [flow]) == []
    assert deadlocks(["a", "b"], [flow], {"a": Fraction(1), "b": Fraction(1, 7)}) == []


def runs_with(size: int, produce: int, consume: int, initial: int) -> bool:
    """Play a pair with a bounded buffer for two iterations, the target whenever it can."""
    tokens, fired = initial, 0
    rounds = 2 * consume // math.gcd(produce, consume)
    while fired < rounds:
        if tokens >= consume:
            tokens -= consume
        elif tokens + produce <= size:
            tokens += produce
            fired += 1
        else:
            return False
    return True


@quick
@given(counts, counts, st.integers(0, 20))
def test_the_least_capacity_is_enough_and_one_token_less_is_not(p: int, c: int, initial: int):
    flow = Flow(source="a", target="b", produce=Fraction(p), consume=Fraction(c), initial=initial)
    least = int(least_capacity(flow))
    assert runs_with(least, p, c, initial)
    if least > initial:
        assert not runs_with(least - 1, p, c, initial)


@pytest.mark.parametrize(("iterations", "tokens"), [(1, 256), (2, 512), (9, 2304)])
def test_a_buffer_holds_what_so_many_iterations_produce(iterations: int, tokens: int):
    flow = Flow(source="sim", target="ppo", produce=Fraction(1), consume=Fraction(256))
    firings = {"sim": Fraction(1), "ppo": Fraction(1, 256)}
    assert capacity(flow, firings, iterations=Fraction(256 * iterations)) == tokens
