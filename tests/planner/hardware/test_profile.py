"""Profile files: strict, mergeable by standing, independent of order."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebrl.errors import PlanError
from ebrl.planner import profile
from ebrl.planner.profile import STANDING, Point, Profile


def point(**changed: Any) -> Point:
    base = {
        "stage": "act",
        "device": "a100",
        "sms": 108,
        "cores": 1.0,
        "batch": 8,
        "median_s": 0.1,
        "p95_s": 0.12,
        "bytes": 10,
        "source": "measured",
    }
    return Point(**{**base, **changed})


POINTS = st.builds(
    point,
    stage=st.sampled_from(["act", "train"]),
    sms=st.sampled_from([54, 108]),
    batch=st.sampled_from([1, 8]),
    median_s=st.floats(1e-6, 1e3),
    p95_s=st.just(2e3),
    source=st.sampled_from(sorted(STANDING)),
    origin=st.sampled_from(["a", "b"]),
)


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    made = profile.of([point(), point(batch=16, samples=30, note="warm")], note="lab")
    file = tmp_path / "p.json"
    file.write_bytes(profile.encode(made))
    assert profile.read(file) == made


def test_measured_beats_published_beats_estimated_whatever_the_order() -> None:
    three = [profile.of([point(source=source)]) for source in STANDING]
    for order in itertools.permutations(three):
        assert [each.source for each in profile.merge(*order).points] == ["measured"]


def test_among_equals_the_later_profile_wins() -> None:
    old, new = profile.of([point(median_s=0.10)]), profile.of([point(median_s=0.11)])
    assert profile.merge(old, new).points[0].median_s == 0.11
    assert profile.merge(new, old).points[0].median_s == 0.10


@settings(max_examples=50)
@given(st.lists(POINTS, max_size=12))
def test_merging_never_raises_a_points_standing_and_keeps_each_place_once(
    points: list[Point],
) -> None:
    merged = profile.of(points).points
    assert set(merged) <= set(points)
    assert {each.place for each in merged} == {each.place for each in points}
    assert len(merged) == len({each.place for each in points})
    for each in merged:
        rivals = [other for other in points if other.place == each.place]
        assert STANDING[each.source] == min(STANDING[other.source] for other in rivals)


@settings(max_examples=50)
@given(st.lists(POINTS, max_size=8), st.lists(POINTS, max_size=8), st.lists(POINTS, max_size=8))
def test_merging_is_associative(a: list[Point], b: list[Point], c: list[Point]) -> None:
    x, y, z = profile.of(a), profile.of(b), profile.of(c)
    assert profile.merge(profile.merge(x, y), z) == profile.merge(x, profile.merge(y, z))


@settings(max_examples=50)
@given(st.lists(POINTS, max_size=8), st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_the_order(points: list[Point], random: Any) -> None:
    shuffled = list(points)
    random.shuffle(shuffled)
    assert profile.digest(points) == profile.digest(shuffled)


def document(**changed: Any) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(Profile(points=(point(), point(batch=16))))
    made["points"][1].update(changed)
    return made


@pytest.mark.parametrize(
    ("changed", "place", "said"),
    [
        ({"batch": 0}, "points[1].batch", ">= 1"),
        ({"batch": 1.5}, "points[1].batch", "expected `int`"),
        ({"median_s": 0}, "points[1].median_s", "> 0"),
        ({"median_s": "fast"}, "points[1].median_s", "expected `float`"),
        ({"median_s": 1.0}, "points[1].p95_s", "less than the median"),
        ({"cores": -1.0}, "points[1].cores", "> 0"),
        ({"source": "guessed"}, "points[1].source", "invalid enum value"),
        ({"device": "cpu"}, "points[1].sms", "0 on cores alone"),
        ({"sms": 0}, "points[1].sms", "1 or more on a device"),
        ({"colour": "red"}, "points[1]", "unknown field `colour`"),
        ({"batch": 8}, "points[1]", "same thing as points[0]"),
        ({"stage": ""}, "points[1].stage", "length >= 1"),
    ],
)
def test_a_fault_names_its_path_in_the_file(
    tmp_path: Path, changed: dict[str, Any], place: str, said: str
) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps(document(**changed)))
    with pytest.raises(PlanError) as caught:
        profile.read(file)
    (fault,) = caught.value.diagnostics
    assert fault.where == f"{file}: {place}"
    assert said in fault.message


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b"", "line 1"),
        (b'{\n"format": "ebrl-profile/1",\n"points": [}', "line 3"),
        (b'{"format": "ebrl-profile/2", "points": []}', "format"),
        (b"[]", ""),
        (b'{"points": [{"stage": "\xff"}]}', ""),
        (b"[" * 100_000, ""),
    ],
)
def test_what_is_no_profile_is_one_fault(tmp_path: Path, text: bytes, where: str) -> None:
    file = tmp_path / "p.json"
    file.write_bytes(text)
    with pytest.raises(PlanError) as caught:
        profile.read(file)
    assert len(caught.value.diagnostics) == 1
    assert where in caught.value.diagnostics[0].where


def test_a_missing_profile_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="No such file") as caught:
        profile.read(tmp_path / "p.json")
    assert "ebrl profile" in caught.value.diagnostics[0].hint
