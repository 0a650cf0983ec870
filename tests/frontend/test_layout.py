"""Drawings of random graphs: nothing lies on anything else."""

from __future__ import annotations

import itertools
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebrl.frontend.drawing.isotonic import spread
from ebrl.frontend.drawing.layout import Box, Wire, place

# Machines that run several suites at once are slow; nothing here depends on time.
quick = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Rectangle = tuple[float, float, float, float]  # left, top, right, bottom


def random_drawing(seed: int) -> tuple[list[Box], list[Wire]]:
    random = Random(seed)
    names = [f"s{number}" for number in range(random.randint(1, 7))]
    boxes = [Box(name=each, width=random.randint(90, 200), head=60, foot=40) for each in names]
    wires = (
        [
            Wire(
                source=source,
                target=target,
                text_width=random.randint(20, 200),
                above=random.randint(10, 60),
                below=24,
                end_width=30,
                feedback=random.random() < 0.3,
            )
            for source, target in (random.sample(names, 2) for _ in range(random.randint(0, 9)))
        ]
        if len(names) > 1
        else []
    )
    place(boxes, wires)
    return boxes, wires


def rectangle(box: Box) -> Rectangle:
    return box.x, box.y, box.x + box.width, box.y + box.height


def text(wire: Wire) -> Rectangle:
    x, y = wire.text_at
    return x, y - wire.above, x + wire.text_width, y + wire.below


def overlap(a: Rectangle, b: Rectangle, slack: float = 0.5) -> bool:
    return (
        a[0] < b[2] - slack and b[0] < a[2] - slack and a[1] < b[3] - slack and b[1] < a[3] - slack
    )


def pieces(wire: Wire) -> list[Rectangle]:
    return [
        (min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))
        for (ax, ay), (bx, by) in itertools.pairwise(wire.points)
    ]


@quick
@given(st.integers(0, 2**32))
def test_boxes_and_labels_lie_apart(seed: int):
    boxes, wires = random_drawing(seed)
    things = [*map(rectangle, boxes), *map(text, wires)]
    assert not [pair for pair in itertools.combinations(things, 2) if overlap(*pair)]


@quick
@given(st.integers(0, 2**32))
def test_a_wire_goes_from_the_side_of_its_source_to_the_side_of_its_target(seed: int):
    boxes, wires = random_drawing(seed)
    by_name = {box.name: box for box in boxes}
    for wire in wires:
        for (x, y), name in ((wire.points[0], wire.source), (wire.points[-1], wire.target)):
            left, top, right, bottom = rectangle(by_name[name])
            assert min(abs(x - left), abs(x - right)) < 1e-6
            assert top < y < bottom


@quick
@given(st.integers(0, 2**32))
def test_a_wire_is_level_or_upright_everywhere_and_goes_through_no_box(seed: int):
    boxes, wires = random_drawing(seed)
    for wire in wires:
        for left, top, right, bottom in pieces(wire):
            assert left == right or top == bottom
            piece = (left, top - 0.01, right, bottom + 0.01)
            assert not [box for box in boxes if overlap(piece, rectangle(box), slack=0.02)]


@quick
@given(st.integers(0, 2**32))
def test_no_wire_goes_through_the_text_of_another(seed: int):
    _, wires = random_drawing(seed)
    for wire, other in itertools.permutations(wires, 2):
        left, top, right, bottom = text(other)
        inner = (left + 1, top + 4.5, right - 1, bottom - 4.5)
        assert not [
            piece
            for a, b, c, d in pieces(wire)
            if overlap(piece := (a, b - 0.01, c, d + 0.01), inner, slack=0.0)
        ]


@quick
@given(st.integers(0, 2**32))
def test_everything_lies_right_of_and_below_the_origin(seed: int):
    boxes, wires = random_drawing(seed)
    assert min(top for _, top, _, _ in map(rectangle, boxes)) >= -1e-6
    assert all(left >= 0 and top >= -1e-6 for left, top, _, _ in map(text, wires))


@quick
@given(
    st.lists(
        st.tuples(st.floats(-50, 50), st.floats(0.1, 9), st.floats(0, 9)), min_size=1, max_size=8
    )
)
def test_numbers_that_want_to_be_elsewhere_keep_their_distances(rows):
    wanted, weights, gaps = (list(each) for each in zip(*rows, strict=True))
    found = spread(wanted, weights, gaps)
    for (a, b), gap in zip(itertools.pairwise(found), gaps[1:], strict=True):
        assert b - a >= gap - 1e-6


@quick
@given(
    st.lists(st.tuples(st.floats(-50, 50), st.floats(0.1, 9)), min_size=2, max_size=6),
    st.integers(0, 5),
    st.floats(-1, 1),
)
def test_no_small_move_that_keeps_the_distances_is_nearer_to_the_wishes(rows, at, move):
    wanted, weights = (list(each) for each in zip(*rows, strict=True))
    gaps = [1.0] * len(rows)
    found = spread(wanted, weights, gaps)

    def cost(numbers: list[float]) -> float:
        return sum(w * (x - y) ** 2 for x, y, w in zip(numbers, wanted, weights, strict=True))

    moved = list(found)
    moved[at % len(moved)] += move
    if all(b - a >= 1.0 for a, b in itertools.pairwise(moved)):
        assert cost(moved) >= cost(found) - 1e-6
