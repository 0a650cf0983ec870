"""Plans for a machine that is not what it was."""

from __future__ import annotations

from collections import Counter

import pytest

from ebrl.planner.cluster import parse
from ebrl.planner.plan import Plan
from ebrl.runtime.watch.around import fewer_cores, on_cores, rebalanced, renumbered, without
from ebrl.runtime.watch.planning import ANEW, STAY, Question, answer
from tests.runtime.emulated_plans import eight

SLOW = {"a100x8-0/3": 2.0}


@pytest.fixture(scope="module")
def made() -> Plan:
    return eight()


def devices(plan: Plan, kind: str) -> Counter[int | None]:
    return Counter(replica.device for replica in plan.of_kind(kind)[0].replicas)


def test_cores_that_are_gone_are_missing_from_a_large_machine_and_slow_a_small_one_down():
    large, small = parse("a100x8"), parse("cpu2")
    left = fewer_cores(large, 32.0)
    assert left.nodes[0].cores == large.nodes[0].cores - 32
    assert sum(map(len, left.nodes[0].numa)) in (0, left.nodes[0].cores)
    assert on_cores(large, 32.0) == 1.0
    assert fewer_cores(small, 1.0) == small
    assert on_cores(small, 1.0) == pytest.approx(2.0)
    assert fewer_cores(large, 0.2) == large


def test_a_slow_device_is_left_out_where_one_node_has_others():
    cluster = parse("a100x8")
    left = without(cluster, SLOW)
    assert left is not None
    assert left.nodes[0].devices == 7
    assert without(parse("2*(a100x8)"), SLOW) is None
    assert without(cluster, {f"a100x8-0/{n}": 2.0 for n in range(8)}) is None


def test_a_plan_for_seven_is_put_on_the_seven_that_are_well(made):
    put = renumbered(made, made.cluster, {"a100x8-0/0": 2.0, "a100x8-0/2": 3.0})
    moved = {before.device: after.device
             for old, new in zip(made.stages, put.stages, strict=True)
             for before, after in zip(old.replicas, new.replicas, strict=True)
             if before.device is not None}  # fmt: skip
    order = [1, 3, 4, 5, 6, 7, 8, 9]
    assert moved == {n: order[n] for n in moved}
    assert put.cluster == made.cluster


def test_ranks_on_a_slow_device_take_less_and_the_update_stays_whole(made):
    told = rebalanced(made, SLOW)
    before, after = (plan.of_kind("train")[0].replicas for plan in (made, told))
    assert sum(rank.share for rank in after) == sum(rank.share for rank in before)
    for kind in ("generate", "train"):
        assert sorted(devices(told, kind).values()) == sorted(devices(made, kind).values())
    ratio = {new.device: new.share / old.share for old, new in zip(before, after, strict=True)}
    well = [each for device, each in ratio.items() if device != 3]
    assert ratio[3] == pytest.approx(0.5 * sum(well) / len(well), rel=0.05)
    even = rebalanced(made, SLOW, uneven=False).of_kind("train")[0].replicas
    assert [rank.share for rank in even] == [rank.share for rank in before]


def test_what_is_planned_around_a_slow_device_beats_staying(made):
    told = answer(
        Question(
            plan=made, points=made.profile, environments=made.environments.count,
            cluster=made.cluster, slow=SLOW, uneven=True,
        )
    )  # fmt: skip
    rates = {each.name: each.throughput for each in told.candidates}
    assert rates[STAY] < 0.8 * made.prediction.throughput_env_steps_per_s
    assert rates[ANEW] > 1.2 * rates[STAY]
