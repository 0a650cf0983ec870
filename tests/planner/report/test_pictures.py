"""The pictures' arithmetic: shares, bars, curves, numbers, and SVG made fit for a page."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.planner.plan import Plan
from ebrl.planner.report import bars, chart, curves, inline, shares, words
from tests.planner.report import material
from tests.planner.report.material import replica, stage


def counted(names: list[str]) -> int:
    """The devices that bars stand for: "12 × a100, on average" is twelve."""
    return sum(int(name.split(" × ")[0].replace(",", "")) for name in names)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any placement on four nodes with two devices each."""
    nodes = st.integers(0, 3).map(lambda number: f"a100x2-{number}")
    device = st.none() | st.integers(0, 1)
    placed = st.builds(
        lambda node, on, sms, start, cores, busy: replica(
            node, on, sms=0 if on is None else sms, sm_start=start, cores=cores, busy=busy
        ),
        nodes,
        device,
        st.sampled_from([8, 44, 64, 108]),
        st.sampled_from([0, 64]),
        st.floats(0.01, 40.0),
        st.floats(0.0, 1.0),
    )
    stages = [
        stage(name, *draw(st.lists(placed, min_size=1, max_size=12)))
        for name in ("simulate", "generate", "train")
    ]
    return material.plan("4*(a100x2)", stages)


@settings(max_examples=40, deadline=None)
@given(plans())
def test_every_node_and_device_is_in_one_bar_whose_segments_lie_side_by_side(plan: Plan):
    (shared,) = shares.shares(plan)
    assert counted([each.name for each in shared.devices]) == 8
    nodes = [re.search(r"cores, (\d+) node", each.name) for each in shared.cores]
    assert sum(int(each[1]) for each in nodes) == 4
    for each in (*shared.cores, *shared.devices):
        at = 0.0
        for segment in each.segments:
            assert segment.start == pytest.approx(at, abs=0.01)
            at = segment.start + segment.width
        assert at <= 100.01


def test_stages_on_apart_multiprocessors_share_them_and_others_take_turns():
    node = "a100x2-0"
    plan = material.plan(
        "a100x2",
        [
            stage("simulate", replica(node)),
            stage("generate", replica(node, 0, sms=64), replica(node, 1, sms=108, busy=0.7)),
            stage(
                "train",
                replica(node, 0, sms=44, sm_start=64),
                replica(node, 1, sms=108, busy=0.25),
            ),
        ],
    )
    (shared,) = shares.shares(plan)
    apart, turns = shared.devices
    assert [each.says for each in (apart, turns)] == [
        "1 × a100: generate 64 of 108 SMs, 1 replica, train 44 of 108 SMs, 1 replica",
        "1 × a100: generate 70\u00a0% of the time, 1 replica, "
        "train 25\u00a0% of the time, 1 replica",
    ]
    assert turns.note == "in turns, share of the time"


def test_two_thousand_nodes_take_no_more_room_than_two():
    nodes = [f"a100x8-{number}" for number in range(2048)]
    stages = [
        stage("simulate", *(replica(node, cores=16.0 + n % 3) for n, node in enumerate(nodes))),
        stage("generate", *(replica(node, 0, sms=108) for node in nodes[:2000])),
        stage("train", *(replica(node, 1, sms=8 * (1 + n % 13)) for n, node in enumerate(nodes))),
    ]
    (shared,) = shares.shares(material.plan("2048*(a100x8)", stages))
    assert len(shared.cores) + len(shared.devices) <= 16
    assert counted([each.name for each in shared.devices]) == 2048 * 8
    assert shared.devices[0].name == "2,000 × a100"
    average = next(each for each in shared.devices if "on average" in each.name)
    assert average.segments[0].name == "train"


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.none() | st.floats(-1e6, 1e6)), min_size=1, max_size=900
    )
)
def test_thinning_a_curve_keeps_its_least_and_greatest_values(points):
    x, y = zip(*points, strict=True)
    xs, means, lows, highs = chart.thin(x, y, most=100)
    assert len(xs) == len(means) == min(len(x), 100)
    known = [value for value in y if value is not None]
    shown = [value for value in (*lows, *highs) if not math.isnan(value)]
    assert bool(known) == bool(shown)
    if known:
        assert (min(shown), max(shown)) == (min(known), max(known))


@given(st.floats(10.0, 1e5), st.lists(st.floats(0.1, 30.0), min_size=2, max_size=60))
def test_a_run_of_constant_speed_has_a_flat_throughput(steps_per_s: float, gaps: list[float]):
    rows, now = [], 0.0
    for gap in gaps:
        now += gap
        rows.append({"seconds": now, "env_steps": now * steps_per_s})
    times, rates = curves.rates_over(rows, 5.0)
    assert rates == pytest.approx([steps_per_s] * len(rates))
    assert bool(times) == (now - gaps[0] >= 5.0)


def test_two_updates_in_quick_succession_make_no_spike():
    rows = [{"seconds": 3.0 * n, "env_steps": 300 * n} for n in range(1, 20)]
    rows.insert(10, {"seconds": rows[9]["seconds"] + 0.01, "env_steps": rows[9]["env_steps"] + 100})
    _, rates = curves.rates_over(rows, 10.0)
    assert max(rates) < 115


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (4.5, "4.5"),
        (-2.0, "\u22122"),
        (78.94, "78.9"),
        (1234.5, "1,234"),
        (math.inf, "∞"),
    ],
)
def test_numbers_have_three_digits_or_so(value: float, text: str):
    assert words.number(value) == text


@given(st.floats(1e-3, 1e9), st.floats(1e-3, 1e9))
def test_an_error_has_the_sign_of_the_difference(measured: float, predicted: float):
    found = words.error(measured, predicted)
    assert (found.tone == "good") == (abs(measured / predicted - 1) <= words.CLOSE)
    if found.text[0] == "+" or found.text.endswith("×"):
        assert measured > predicted
    elif found.text[0] == words.MINUS:
        assert measured < predicted
    else:
        assert found.text == "±0\u00a0%"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(9.31, "9.31 s"), (274.4, "274 s"), (750, "12 min 30 s"), (11_520, "3 h 12 min")],
)
def test_durations_are_told_as_people_do(seconds: float, text: str):
    assert words.duration(seconds) == text


def test_bytes_never_need_an_exponent():
    assert [words.size(each) for each in (512, 53_504, 999_999, 2.06e12)] == [
        "512 B",
        "53.5 kB",
        "1 MB",
        "2.06 TB",
    ]


def test_a_label_is_left_out_where_it_has_no_room_and_said_below():
    parts = [
        bars.Part(
            name="simulate", amount=1.0, value="1 of 100 cores", short="1", colour="simulate"
        ),
        bars.Part(name="train", amount=90.0, value="90 of 100 cores", short="90", colour="train"),
    ]
    made = bars.bar("node", parts, 100.0)
    assert [each.label for each in made.segments] == ["", "train 90"]
    assert made.needs_detail
    assert made.detail == "simulate 1 · train 90"


def test_stages_of_one_kind_have_colours_of_their_own():
    plan = material.plan(
        "a100x2",
        [
            stage("student", replica("a100x2-0"), kind="generate"),
            stage("teacher", replica("a100x2-0"), kind="generate"),
            stage("reward", replica("a100x2-0"), kind="reward"),
        ],
    )
    found = bars.colours(plan)
    assert found["student"] == "generate"
    assert len(set(found.values())) == 3


def test_an_inlined_picture_keeps_to_itself_and_to_the_page_s_colours():
    drawn = chart.chart(
        [chart.Line(x=[0, 1, 2], y=[1.0, None, 3.0], colour="accent")],
        name="one",
        title="A < B",
        description="from 1 & up",
        x=chart.Axis(label="seconds"),
        y=chart.Axis(label="steps/s", low=0),
        levels=[chart.Level(y=2.0, name="predicted 2")],
    )
    root = ElementTree.fromstring(drawn)
    assert "http" not in drawn
    assert not re.search(r"#0101[0-9a-f]{2}", drawn)
    assert "var(--accent)" in drawn
    assert "var(--predicted)" in drawn
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    assert all(each.startswith("one-") for each in ids)
    assert [each.text for each in root if each.tag in ("title", "desc")] == ["A < B", "from 1 & up"]
    texts = {each.text for each in root.iter("text")}
    assert {"seconds", "steps/s", "predicted 2"} <= texts


def test_inlining_maps_colours_in_attributes_too_where_var_would_not_work():
    made = inline.inline(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">'
        '<rect width="1" height="1" fill="#123456" stroke="none"/></svg>',
        name="p",
        title="t",
        description="",
        colours={"#123456": "var(--ink)"},
    )
    rect = ElementTree.fromstring(made).find("rect")
    assert rect.get("style") == "fill: var(--ink)"
    assert rect.get("fill") is None
