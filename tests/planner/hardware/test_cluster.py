"""The `--cluster` text: what it means, and what is said when it means nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.errors import PlanError
from ebrl.planner import devices
from ebrl.planner.cluster import parse
from ebrl.planner.hardware import Cluster

GIB = 1024**3


def shape(cluster: Cluster) -> list[tuple[str, int, int, int]]:
    return [(node.name, node.count, node.cores, node.devices) for node in cluster.nodes]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu16", [("cpu16", 1, 16, 0)]),
        ("2*(cpu64)", [("cpu64", 2, 64, 0)]),
        ("2*cpu64", [("cpu64", 2, 64, 0)]),
        ("a100x8", [("a100x8", 1, 128, 8)]),
        ("A100x8", [("a100x8", 1, 128, 8)]),
        ("a100", [("a100x1", 1, 16, 1)]),
        ("4*(h100x8)", [("h100x8", 4, 112, 8)]),
        ("h200x1/cores=16", [("h200x1", 1, 16, 1)]),
        ("4*(h100x8/cores=64)", [("h100x8", 4, 64, 8)]),
        ("4*(h100x8)/cores=64", [("h100x8", 4, 64, 8)]),
        ("rtx4090", [("rtx4090x1", 1, 16, 1)]),
        ("rtx4090x2", [("rtx4090x2", 1, 32, 2)]),
        ("h100-pciex4", [("h100-pciex4", 1, 64, 4)]),
        (
            " 2*( a100x8 ) + 1*(l40sx4) + 3*(cpu64)",
            [("a100x8", 2, 128, 8), ("l40sx4", 1, 48, 4), ("cpu64", 3, 64, 0)],
        ),
        ("a100x8+a100x8", [("a100x8", 2, 128, 8)]),
        ("a100x8+a100x8/cores=4", [("a100x8", 1, 128, 8), ("a100x8b", 1, 4, 8)]),
    ],
)
def test_a_text_means_classes_of_equal_nodes(
    text: str, expected: list[tuple[str, int, int, int]]
) -> None:
    assert shape(parse(text)) == expected


def test_memory_may_be_given_in_decimal_or_binary_units() -> None:
    assert parse("cpu4/ram=64GB").nodes[0].ram_bytes == 64 * 10**9
    assert parse("cpu4/ram=64GiB").nodes[0].ram_bytes == 64 * GIB
    assert parse("a100x8/ram=1.5TB").nodes[0].ram_bytes == 1_500_000_000_000
    assert parse("cpu4").nodes[0].ram_bytes == 16 * GIB


def test_local_is_this_machine_and_may_be_made_smaller() -> None:
    whole, part = parse("local"), parse("local/cores=1")
    assert whole.local
    assert part.local
    assert part.nodes[0].cores == 1
    assert sum(len(domain) for domain in part.nodes[0].numa) == 1
    assert sum(len(domain) for domain in whole.nodes[0].numa) == whole.nodes[0].cores


def test_local_cannot_be_made_larger() -> None:
    with pytest.raises(PlanError, match="this machine has"):
        parse("local/cores=100000")


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("", 1, "empty"),
        ("   ", 1, "empty"),
        ("a10x0x8", 1, "did you mean a100"),
        ("2*(rtx4091x8)", 4, "did you mean rtx4090"),
        ("rtx4091", 1, "no device is called 'rtx4091'"),
        ("a100x8+", 8, "a kind of node is missing"),
        ("4*", 3, "a kind of node is missing"),
        ("(a100x8", 1, "not closed"),
        ("a100x8)", 7, "not expected"),
        ("a100x", 6, "how many a100"),
        ("cpux2", 4, "2*(cpu64)"),
        ("cpu", 1, "how many cores"),
        ("cpu0", 4, "1 to"),
        ("0*(cpu4)", 1, "1 to"),
        ("a100x8/core=4", 8, "options are /cores=16"),
        ("a100x8/cores=many", 14, "not a number of cores"),
        ("a100x8/ram=", 12, "not an amount of memory"),
        ("a100x8/ram=5XB", 12, "not an amount of memory"),
        ("a100x8/cores", 13, "needs a value"),
        ("local+cpu4", 6, "not expected"),
        ("cpu4+local", 6, "local stands alone"),
        ("cpu4+ray", 6, "ray stands alone"),
        ("a100 x8", 6, "not expected"),
        ("4(a100x8)", 2, "followed by *"),
        ("a100x99999999999999999999", 6, "1 to"),
        ("cpu4;cpu8", 5, "no meaning"),
        ("cpu4\x00", 5, "no meaning"),
        ("é", 1, "no meaning"),
        ("cpu²", 4, "no meaning"),
    ],
)
def test_a_wrong_text_is_shown_with_a_caret_under_the_place(
    text: str, column: int, said: str
) -> None:
    with pytest.raises(PlanError) as caught:
        parse(text)
    (fault,) = caught.value.diagnostics
    assert fault.where == f"--cluster, column {column}"
    assert said in f"{fault.message} {fault.hint}"
    *_, shown, caret = fault.message.split("\n")
    assert caret.index("^") - 2 == column - 1
    assert len(shown) - 2 == len(text[:100])


def test_the_caret_stays_in_view_in_a_long_text() -> None:
    with pytest.raises(PlanError) as caught:
        parse("+".join(["cpu4"] * 200) + "+wrong")
    *_, shown, caret = caught.value.diagnostics[0].message.split("\n")
    assert shown[caret.index("^") :].startswith("wrong")


def test_a_thousand_equal_nodes_cost_no_more_than_one() -> None:
    assert len(parse("1000*(a100x8)").nodes) == 1
    assert len(parse("+".join(["a100x8"] * 500)).nodes) == 1


KINDS = st.sampled_from([kind.name for kind in devices.catalogue()])


@given(st.lists(st.tuples(st.integers(1, 99), KINDS, st.integers(1, 16)), min_size=1, max_size=5))
def test_every_kind_of_the_catalogue_can_be_mixed_with_every_other(
    parts: list[tuple[int, str, int]],
) -> None:
    cluster = parse("+".join(f"{count}*({kind}x{n})" for count, kind, n in parts))
    assert sum(node.count * node.devices for node in cluster.nodes) == sum(
        count * n for count, _, n in parts
    )
    names = [node.name for node in cluster.nodes]
    assert len(set(names)) == len(names)


@given(st.text(max_size=40))
def test_whatever_is_written_is_a_cluster_or_one_fault(text: str) -> None:
    nodes, faults = 0, []
    try:
        nodes = len(parse(text).nodes)
    except PlanError as error:
        faults = [fault for fault in error.diagnostics if fault.where]
    assert (nodes >= 1) != (len(faults) == 1)


def test_equal_texts_give_equal_digests_and_different_ones_do_not() -> None:
    assert parse("2*(A100x8)").digest() == parse(" 2*( a100x8 )").digest()
    assert parse("2*(a100x8)").digest() != parse("3*(a100x8)").digest()


def test_a_missing_file_is_said_to_be_missing() -> None:
    with pytest.raises(PlanError, match=re.escape("No such file")):
        parse("nowhere.yaml")
