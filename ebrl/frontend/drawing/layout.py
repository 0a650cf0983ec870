"""Where boxes and wires go in a drawing: columns by dataflow, wires at right angles, labels kept
apart.

A layered layout in the manner of Sugiyama, Tagawa and Toda (1981), made for a handful of boxes
whose wires carry text. A wire over several columns runs through a lane of its own in those between.
Invariant: a wire's text lies along its first level piece, in a strip between two columns where
nothing but level pieces run, and those keep the height of their text apart. So labels never
overlap.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ebrl.frontend.drawing.isotonic import spread
from ebrl.frontend.drawing.layers import Item, Layers, Link, arrange

PORT = 26.0  # least distance between two ports
BETWEEN = 34.0  # least distance between two boxes, or a box and a lane
TRACK = 14.0  # distance of two upright pieces
LEVEL = 4.0  # a wire whose ends differ by less is drawn level
PULL = (1.0, 3.0, 9.0)  # how strongly a piece wants to be level, by its ends that are lanes
STUB = 16.0  # level piece at either end of a wire


@dataclass(slots=True, kw_only=True)
class Box:
    """What is to be placed. `head`, `foot`: heights above the first, below the last port."""

    name: str
    width: float
    head: float
    foot: float
    x: float = 0.0
    y: float = 0.0
    height: float = 0.0


@dataclass(slots=True, kw_only=True)
class Wire:
    """A wire, with the size of its text. `feedback`: drawn backwards when it closes a loop."""

    source: str
    target: str
    text_width: float
    above: float
    below: float
    end_width: float  # of what stands at its right end
    feedback: bool = False
    points: list[tuple[float, float]] = field(default_factory=list)  # source to target
    text_at: tuple[float, float] = (0.0, 0.0)  # left end of the text, on the wire


@dataclass(slots=True)
class _Slot:
    """A height at which wires meet a box (at its left, its right, or both) or pass in a lane."""

    column: int
    box: Box | None
    above: float = 4.0
    below: float = 4.0
    y: float = 0.0


@dataclass(slots=True)
class _Piece:
    """A wire between two neighbouring columns."""

    wire: Wire
    left: _Slot
    right: _Slot
    weight: float


def place(boxes: Sequence[Box], wires: Sequence[Wire]) -> tuple[float, float]:
    """Fill in the places of boxes and the points of wires; width and height of it all."""
    links = [Link(wire.source, wire.target, wire.feedback) for wire in wires]
    layers = arrange([box.name for box in boxes], links)
    slots, pieces = _slots(layers, {box.name: box for box in boxes}, wires)
    _heights(slots, pieces)
    for box in boxes:
        own = [slot for column in slots for slot in column if slot.box is box]
        box.y = own[0].y - box.head
        box.height = own[-1].y + box.foot - box.y
    width = _widths(layers, {box.name: box for box in boxes}, pieces)
    for wire in wires:
        wire.points = list(_tidy(wire.points))
        if layers.columns_of[wire.source] > layers.columns_of[wire.target]:
            wire.points.reverse()
    tops = [box.y for box in boxes] + [slot.y - slot.above for each in slots for slot in each]
    top = min(tops, default=0.0)
    for box in boxes:
        box.y -= top
    for wire in wires:
        wire.points = [(x, y - top) for x, y in wire.points]
        wire.text_at = (wire.text_at[0], wire.text_at[1] - top)
    lowest = [y + 20 for wire in wires for _, y in wire.points]
    return width, max([*lowest, *(box.y + box.height for box in boxes)], default=0.0)


def _slots(
    layers: Layers, boxes: Mapping[str, Box], wires: Sequence[Wire]
) -> tuple[list[list[_Slot]], list[_Piece]]:
    """Slots of each column from the top, and the pieces of all wires.

    The n-th wire at a box's left and the n-th at its right share a slot.
    """
    rank = {item: number for items in layers.columns for number, item in enumerate(items)}
    ends: dict[tuple[Item, str], list[tuple[int, int]]] = {}  # (rank of the other end, wire)
    for number, chain in enumerate(layers.chains):
        ends.setdefault((chain[0], "right"), []).append((rank[chain[1]], number))
        ends.setdefault((chain[-1], "left"), []).append((rank[chain[-2]], number))
    slots: list[list[_Slot]] = []
    where: dict[tuple[Item, str, int], _Slot] = {}  # a box, its side and a wire
    lanes: dict[Item, _Slot] = {}
    for number, items in enumerate(layers.columns):
        here: list[_Slot] = []
        for item in items:
            if not isinstance(item, str):
                lanes[item] = _Slot(number, None)
                here.append(lanes[item])
                continue
            sides = {side: sorted(ends.get((item, side), [])) for side in ("left", "right")}
            own = [_Slot(number, boxes[item]) for _ in range(max(1, *map(len, sides.values())))]
            for side, found in sides.items():
                for slot, (_, wire) in zip(own, found, strict=False):
                    where[item, side, wire] = slot
            here += own
        slots.append(here)
    pieces = []
    for number, (drawn, chain) in enumerate(zip(wires, layers.chains, strict=True)):
        first, last = where[chain[0], "right", number], where[chain[-1], "left", number]
        first.above, first.below = max(first.above, drawn.above), max(first.below, drawn.below)
        stops = [first, *(lanes[each] for each in chain[1:-1]), last]
        for left, right in itertools.pairwise(stops):
            weight = PULL[(left.box is None) + (right.box is None)]
            pieces.append(_Piece(drawn, left, right, weight))
    return slots, pieces


def _heights(slots: list[list[_Slot]], pieces: list[_Piece]) -> None:
    """Draw each slot to what it is connected with, and keep slots apart, until it settles."""
    gaps = [[0.0, *itertools.starmap(_gap, itertools.pairwise(column))] for column in slots]
    for column, gap in zip(slots, gaps, strict=True):
        for slot, y in zip(column, itertools.accumulate(gap), strict=True):
            slot.y = y
    for _ in range(200):
        for number in (*range(len(slots)), *reversed(range(len(slots)))):
            column, gap = slots[number], gaps[number]
            wanted, weights = [], []
            for slot in column:
                pulls = [(p.right.y, p.weight) for p in pieces if p.left is slot]
                pulls += [(p.left.y, p.weight) for p in pieces if p.right is slot]
                weight = sum(w for _, w in pulls)
                wanted.append(sum(y * w for y, w in pulls) / weight if pulls else slot.y)
                weights.append(weight if pulls else 0.05)
            for slot, y in zip(column, spread(wanted, weights, gap), strict=True):
                slot.y = y
    for piece in sorted(pieces, key=lambda each: each.left.column):
        if piece.right.box is None and abs(piece.left.y - piece.right.y) < LEVEL:
            piece.right.y = piece.left.y


def _gap(upper: _Slot, lower: _Slot) -> float:
    gap = upper.below + lower.above
    if upper.box is not lower.box or upper.box is None:
        gap = max(upper.below, upper.box.foot if upper.box else 0.0) + BETWEEN
        gap += max(lower.above, lower.box.head if lower.box else 0.0)
    return max(gap, PORT)


def _widths(layers: Layers, boxes: Mapping[str, Box], pieces: list[_Piece]) -> float:
    """Columns as wide as their widest box; between them room for text, upright pieces and ends."""
    x = 0.0
    for number, items in enumerate(layers.columns):
        own = [boxes[item] for item in items if isinstance(item, str)]
        width = max((box.width for box in own), default=0.0)
        for box in own:
            box.x, box.width = x, width
        x += width
        here = [piece for piece in pieces if piece.left.column == number]
        if not here:
            continue
        text = max((p.wire.text_width for p in here if p.left.box is not None), default=0.0)
        bent = [p for p in here if abs(p.left.y - p.right.y) >= LEVEL]
        tracks = {id(p): track for track, p in enumerate(_tracks(bent))}
        upright = x + STUB + text + TRACK
        ends = max((p.wire.end_width for p in here if p.right.box is not None), default=0.0)
        right = upright + TRACK * len(bent) + STUB + ends
        for piece in here:
            path = [(x, piece.left.y), (right, piece.left.y)]
            if id(piece) in tracks:
                bend = upright + TRACK * tracks[id(piece)]
                path[1:] = [(bend, piece.left.y), (bend, piece.right.y), (right, piece.right.y)]
            piece.wire.points += path
            if piece.left.box is not None:
                piece.wire.text_at = (x + STUB, piece.left.y)
        x = right
    return x


def _tracks(bent: list[_Piece]) -> Sequence[_Piece]:
    """The order of upright pieces, left to right, with the fewest crossings."""
    if len(bent) > 6:
        return sorted(bent, key=lambda p: (p.right.y < p.left.y, p.left.y))
    return min(itertools.permutations(bent), key=_crossings, default=())


def _crossings(tracks: Sequence[_Piece]) -> int:
    count = 0
    for (i, a), (j, b) in itertools.permutations(enumerate(tracks), 2):
        low, high = sorted((a.left.y, a.right.y))
        level = b.left.y if i < j else b.right.y
        count += low < level < high
        count += 3 * (i < j and abs(a.right.y - b.left.y) < 6)  # two levels would lie on each other
    return count


def _tidy(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Without points in the middle of a straight piece."""
    for number, point in enumerate(points):
        if 0 < number < len(points) - 1:
            before, after = points[number - 1], points[number + 1]
            if (
                point == before
                or before[1] == point[1] == after[1]
                or before[0] == point[0] == after[0]
            ):
                continue
        yield point
