"""Where boxes and wires go in a drawing: columns by dataflow, wires at right angles, labels kept apart.

A layered layout in the manner of Sugiyama, Tagawa and Toda (1981), made for a handful of boxes whose
wires carry text. A wire over several columns runs through a lane of its own in those between.
Invariant: a wire's text lies along its first level piece, in a strip between two columns where nothing
but level pieces run, and those keep the height of their text apart. So labels never overlap.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import networkx as nx

from ebrl.frontend.isotonic import spread

PORT = 26.0  # least distance between two ports
BETWEEN = 34.0  # least distance between two boxes, or a box and a lane
TRACK = 14.0  # distance of two upright pieces
LEVEL = 4.0  # a wire whose ends differ by less is drawn level
STUB = 16.0  # level piece at either end of a wire


@dataclass(slots=True, kw_only=True)
class Box:
    """What is to be placed: `head` and `foot` are the heights above the first and below the last port."""

    name: str
    width: float
    head: float
    foot: float
    x: float = 0.0
    y: float = 0.0
    height: float = 0.0


@dataclass(slots=True, kw_only=True)
class Wire:
    """A wire, with the size of its text. `feedback`: better drawn backwards when it closes a loop."""

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
    column = _columns(boxes, wires)
    order = _order(boxes, wires, column)
    slots, chains = _slots(order, wires, column)
    pieces = [piece for chain in chains for piece in chain]
    _heights(slots, pieces)
    for slot_column in slots:
        for box in {id(each.box): each.box for each in slot_column if each.box is not None}.values():
            own = [each for each in slot_column if each.box is box]
            box.y = own[0].y - box.head
            box.height = own[-1].y + box.foot - box.y
    width = _widths(order, slots, wires, pieces)
    top = min(min(each.y for each in boxes), *(s.y - s.above for c in slots for s in c))
    for box in boxes:
        box.y -= top
    for wire in wires:
        wire.points = [(x, y - top) for x, y in wire.points]
        wire.text_at = (wire.text_at[0], wire.text_at[1] - top)
    lowest = max(y for wire in wires for _, y in wire.points) if wires else 0.0
    return width, max(lowest + 20, *(each.y + each.height for each in boxes))


def _columns(boxes: Sequence[Box], wires: Sequence[Wire]) -> dict[str, int]:
    """Each box right of what feeds it; wires that would close a loop do not count, feedback first."""
    forward = nx.DiGraph()
    forward.add_nodes_from(box.name for box in boxes)
    for wire in sorted(wires, key=lambda each: each.feedback):
        if not nx.has_path(forward, wire.target, wire.source):
            forward.add_edge(wire.source, wire.target)
    return {
        name: number
        for number, names in enumerate(nx.topological_generations(forward))
        for name in names
    }


_Lane = tuple[int, int]  # wire's index, column


def _chain(wire: Wire, number: int, column: dict[str, int]) -> list[str | _Lane]:
    """Left box, lanes, right box."""
    left, right = sorted((wire.source, wire.target), key=column.__getitem__)
    lanes = range(column[left] + 1, column[right])
    return [left, *((number, each) for each in lanes), right]


def _order(
    boxes: Sequence[Box], wires: Sequence[Wire], column: dict[str, int]
) -> list[list[Box | _Lane]]:
    """Top to bottom in each column: few crossings, short ways. Neighbours are swapped while it helps."""
    by_name = {box.name: box for box in boxes}
    order: list[list[str | _Lane]] = [[] for _ in range(max(column.values(), default=0) + 1)]
    for box in boxes:
        order[column[box.name]].append(box.name)
    chains = [_chain(wire, number, column) for number, wire in enumerate(wires)]
    for chain in chains:
        for lane in chain[1:-1]:
            assert isinstance(lane, tuple)
            order[lane[1]].append(lane)
    links = [pair for chain in chains for pair in itertools.pairwise(chain)]
    best = _badness(order, links)
    improved = True
    while improved:
        improved = False
        for names in order:
            for first, second in itertools.combinations(range(len(names)), 2):
                names[first], names[second] = names[second], names[first]
                now = _badness(order, links)
                if now < best:
                    best, improved = now, True
                else:
                    names[first], names[second] = names[second], names[first]
    return [[by_name[x] if isinstance(x, str) else x for x in names] for names in order]


def _badness(
    order: list[list[str | _Lane]], links: list[tuple[str | _Lane, str | _Lane]]
) -> tuple[int, float]:
    """Crossings, then how far from level the wires are."""
    at = {item: number for names in order for number, item in enumerate(names)}
    of = {item: number for number, names in enumerate(order) for item in names}
    crossings = sum(
        (at[a] - at[c]) * (at[b] - at[d]) < 0
        for (a, b), (c, d) in itertools.combinations(links, 2)
        if of[a] == of[c]
    )
    middle = {item: at[item] - len(order[of[item]]) / 2 for item in at}
    return crossings, sum(abs(middle[a] - middle[b]) for a, b in links)


def _slots(
    order: list[list[Box | _Lane]], wires: Sequence[Wire], column: dict[str, int]
) -> tuple[list[list[_Slot]], list[list[_Piece]]]:
    """Slots of each column from the top, and the pieces of each wire from the left.

    The n-th wire at a box's left and the n-th at its right share a slot.
    """
    rank = {
        (item.name if isinstance(item, Box) else item): number
        for items in order
        for number, item in enumerate(items)
    }
    chains = [_chain(wire, number, column) for number, wire in enumerate(wires)]
    ends: dict[tuple[str, str], list[tuple[int, int]]] = {}  # box and side → (rank of the other end, wire)
    for number, chain in enumerate(chains):
        left, right = chain[0], chain[-1]
        assert isinstance(left, str)
        assert isinstance(right, str)
        ends.setdefault((left, "right"), []).append((rank[chain[1]], number))
        ends.setdefault((right, "left"), []).append((rank[chain[-2]], number))
    slots: list[list[_Slot]] = []
    where: dict[tuple[object, int], _Slot] = {}  # (box name and side, or lane) and wire → slot
    for number, items in enumerate(order):
        here: list[_Slot] = []
        for item in items:
            if not isinstance(item, Box):
                lane = _Slot(number, None)
                where[item, item[0]] = lane
                here.append(lane)
                continue
            sides = {side: sorted(ends.get((item.name, side), [])) for side in ("left", "right")}
            own = [_Slot(number, item) for _ in range(max(1, *map(len, sides.values())))]
            for side, found in sides.items():
                for slot, (_, wire) in zip(own, found, strict=False):
                    where[(item.name, side), wire] = slot
            here += own
        slots.append(here)
    pieces = []
    for number, (wire, chain) in enumerate(zip(wires, chains, strict=True)):
        stops = [where[(chain[0], "right"), number]]
        stops += [where[lane, number] for lane in chain[1:-1]]
        stops += [where[(chain[-1], "left"), number]]
        stops[0].above = max(stops[0].above, wire.above)
        stops[0].below = max(stops[0].below, wire.below)
        weights = {0: 1.0, 1: 3.0, 2: 9.0}
        pieces.append(
            [
                _Piece(wire, a, b, weights[(a.box is None) + (b.box is None)])
                for a, b in itertools.pairwise(stops)
            ]
        )
    return slots, pieces


def _heights(slots: list[list[_Slot]], pieces: list[_Piece]) -> None:
    """Draw each slot to what it is connected with, and keep slots apart, until it settles."""
    gaps = [[0.0, *itertools.starmap(_gap, itertools.pairwise(column))] for column in slots]
    for column, gap in zip(slots, gaps, strict=True):
        for slot, y in zip(column, itertools.accumulate(gap), strict=True):
            slot.y = y
    for _ in range(200):
        for column, gap in itertools.chain(zip(slots, gaps), zip(slots[::-1], gaps[::-1])):  # noqa: B905
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


def _widths(
    order: list[list[Box | _Lane]],
    slots: list[list[_Slot]],
    wires: Sequence[Wire],
    pieces: list[_Piece],
) -> float:
    """Columns as wide as their widest box; between them room for text, upright pieces and ends."""
    x = 0.0
    for number, items in enumerate(order):
        width = max((item.width for item in items if isinstance(item, Box)), default=0.0)
        for box in items:
            if isinstance(box, Box):
                box.x, box.width = x, width
        x += width
        here = [piece for piece in pieces if piece.left.column == number]
        if not here:
            continue
        begins = [piece for piece in here if piece.left.box is not None]
        text = max((piece.wire.text_width for piece in begins), default=0.0)
        bent = [piece for piece in here if abs(piece.left.y - piece.right.y) >= LEVEL]
        tracks = {id(p): t for t, p in enumerate(_tracks(bent))}
        upright = x + STUB + text + TRACK
        right = upright + TRACK * len(bent)
        ends = [p.wire.end_width for p in here if p.right.box is not None]
        right += STUB + max(ends, default=0.0)
        for piece in here:
            bend = upright + TRACK * tracks.get(id(piece), 0)
            path = [(x, piece.left.y), (bend, piece.left.y), (bend, piece.right.y), (right, piece.right.y)]
            if id(piece) not in tracks:
                path = [(x, piece.left.y), (right, piece.left.y)]
            piece.wire.points += path
            if piece.left.box is not None:
                piece.wire.text_at = (x + STUB, piece.left.y)
        x = right
    for wire in wires:
        wire.points = list(_tidy(wire.points))
        first = next(box for items in order for box in items if isinstance(box, Box) and box.name == wire.source)
        if abs(wire.points[0][0] - (first.x + first.width)) > 1e-6:
            wire.points.reverse()
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
            if point == before or before[1] == point[1] == after[1] or before[0] == point[0] == after[0]:
                continue
        yield point
