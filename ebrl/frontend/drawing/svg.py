"""A checked graph as SVG, fit for a paper: stages, typed wires, rates, staleness, tokens at the
start.

Rates stand at both ends of a wire and tokens before the first firing are dots on it, as in the
dataflow literature. Invariant: fonts are generic families with widths estimated on the safe side,
so the drawing holds together wherever it is opened.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from ebrl.frontend.draw import (
    grouped,
    number_text,
    rate_text,
    spec_lines,
    stage_type,
    stale_text,
    summary,
)
from ebrl.frontend.drawing.layout import STUB, Box, Wire, place
from ebrl.frontend.program import EdgeProgram, Program, StageProgram

MARGIN = 28.0
TITLE = 64.0
LEGEND = 46.0
HEAD, FOOT = 54.0, 30.0
LINE = 13.5  # height of a line of small text
DOT = 30.0  # room for the dot and its number

INK, SOFT, RULE, PAPER = "#1f2937", "#5b6472", "#64707f", "#ffffff"
STALE = "#b45309"
COLOURS = {
    "simulate": ("#0f766e", "#e7f5f2"),
    "generate": ("#4338ca", "#eeedfc"),
    "train": ("#b45309", "#fdf3e6"),
}
OTHER = ("#475569", "#f1f4f8")

STYLE = """
text { font-family: "Helvetica Neue", Helvetica, Arial, "DejaVu Sans", sans-serif; fill: #1f2937; }
.title { font-size: 19px; font-weight: bold; }
.summary { font-size: 12px; fill: #5b6472; }
.kind { font-size: 9.5px; font-weight: bold; letter-spacing: 0.9px; }
.name { font-size: 15px; font-weight: bold; }
.small { font-size: 11px; fill: #5b6472; }
.port { font-size: 11px; }
.spec { font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 10.5px; }
.rate { font-size: 10.5px; font-weight: bold; fill: #5b6472; }
.note { font-size: 10.5px; fill: #5b6472; }
.stale { font-size: 10.5px; font-weight: bold; fill: #b45309; }
"""


def as_svg(program: Program) -> str:
    """One self-contained SVG document."""
    boxes = [_box(stage, program) for stage in program.stages]
    wires = [_wire(edge, program) for edge in program.edges]
    wide, high = place(boxes, wires)
    wide = max(wide, _width(summary(program), 12), _width(program.name, 19), 560.0)
    width, height = wide + 2 * MARGIN, high + TITLE + LEGEND + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(program.name)}</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        'markerHeight="8" orient="auto-start-reverse">'
        f'<path d="M0,1 L9,5 L0,9 Z" fill="{RULE}"/></marker></defs>',
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        _text(MARGIN, MARGIN + 16, program.name, "title"),
        _text(MARGIN, MARGIN + 36, summary(program), "summary"),
        f'<g transform="translate({MARGIN},{MARGIN + TITLE})">',
    ]
    for wire in wires:
        parts.append(_path(wire, program.edges[wires.index(wire)]))
    for box, stage in zip(boxes, program.stages, strict=True):
        parts += _draw_box(box, stage)
    for wire, edge in zip(wires, program.edges, strict=True):
        parts += _draw_text(wire, edge)
    parts += ["</g>", *_legend(MARGIN, height - MARGIN - 4, wide, program), "</svg>"]
    return "\n".join(parts) + "\n"


def _box(stage: StageProgram, program: Program) -> Box:
    ports: dict[str, list[str]] = {"in": [""], "out": [""]}
    for edge in program.edges:
        for end, side in ((edge.source, "out"), (edge.target, "in")):
            name, _, port = end.partition(".")
            if name == stage.name:
                ports[side].append(port)
    inner = [max(_width(port, 11) for port in found) for found in ports.values()]
    texts = [_width(stage.name, 15), _width(stage_type(stage), 11), _width(_fires(stage), 11)]
    return Box(
        name=stage.name,
        width=max(sum(inner) + 44.0, *(each + 32.0 for each in texts), 130.0),
        head=HEAD + 30.0,
        foot=FOOT + 22.0,
    )


def _fires(stage: StageProgram) -> str:
    return f"{grouped(stage.rate)} firing{'s' * (stage.rate != '1')} per env step"


def _wire(edge: EdgeProgram, program: Program) -> Wire:
    lines, notes = spec_lines(edge.spec), _notes(edge)
    produce, consume = rate_text(edge)
    below = sum(_width(text, 10.5) for text, _ in notes) + 12.0 * len(notes)
    text = max(
        *(_width(line, 10.5, mono=True) for line in lines), _width(produce, 10.5) + 10 + below
    )
    target, _, _ = edge.target.partition(".")
    into_simulator = any(each.kind == "simulate" and each.name == target for each in program.stages)
    return Wire(
        source=edge.source.partition(".")[0],
        target=target,
        text_width=text + (DOT if _dots(edge) else 0.0) + 6.0,
        above=LINE * len(lines) + 8.0,
        below=LINE + 10.0,
        end_width=max(_width(consume, 10.5), _width(produce, 10.5)) + 8.0,
        feedback=edge.keep == "latest" or into_simulator,
    )


def _dots(edge: EdgeProgram) -> bool:
    return edge.initial > 0 and edge.keep != "latest"


def _notes(edge: EdgeProgram) -> list[tuple[str, str]]:
    """What stands below the wire, with its style."""
    notes = []
    if edge.max_staleness is not None and edge.keep != "latest":
        notes.append((stale_text(edge.max_staleness), "stale"))
    if edge.reuse > 1:
        notes.append((f"each used {edge.reuse}×", "note"))
    if edge.cast:
        notes.append(("cast", "note"))
    if edge.capacity is not None and edge.keep != "latest":
        notes.append((f"holds {number_text(edge.capacity)}", "note"))
    return notes


def _path(wire: Wire, edge: EdgeProgram) -> str:
    """Rounded at the corners, with its head at the target."""
    points, radius = wire.points, 7.0
    path = [f"M{points[0][0]:.1f},{points[0][1]:.1f}"]
    for (ax, ay), (bx, by), (cx, cy) in zip(points, points[1:], points[2:], strict=False):
        into = min(radius, (abs(bx - ax) + abs(by - ay)) / 2)
        out = min(radius, (abs(cx - bx) + abs(cy - by)) / 2)
        near = (bx - _sign(bx - ax) * into, by - _sign(by - ay) * into)
        far = (bx + _sign(cx - bx) * out, by + _sign(cy - by) * out)
        path.append(f"L{near[0]:.1f},{near[1]:.1f} Q{bx:.1f},{by:.1f} {far[0]:.1f},{far[1]:.1f}")
    path.append(f"L{points[-1][0]:.1f},{points[-1][1]:.1f}")
    dashed = ' stroke-dasharray="6 4"' if edge.keep == "latest" else ""
    return (
        f'<path d="{" ".join(path)}" fill="none" stroke="{RULE}" stroke-width="1.5"{dashed} '
        'marker-end="url(#head)"/>'
    )


def _draw_text(wire: Wire, edge: EdgeProgram) -> list[str]:
    """Type above the wire, rates at its ends, policy below; port names inside the boxes."""
    x, y = wire.text_at
    lines = spec_lines(edge.spec)
    parts = [
        _text(x + 2, y - 7 - LINE * (len(lines) - 1 - n), line, "spec")
        for n, line in enumerate(lines)
    ]
    (ax, ay), (bx, by) = wire.points[0], wire.points[-1]
    forward = ax < bx
    produce, consume = rate_text(edge)
    left, right = (produce, consume) if forward else (consume, produce)
    right_x, right_y = (bx, by) if forward else (ax, ay)
    parts.append(_text(x + 2, y + 14, left, "rate"))
    parts.append(_text(right_x - STUB + 4, right_y + 14, right, "rate", anchor="end"))
    at = x + 2 + _width(left, 10.5) + 10
    for text, style in _notes(edge):
        parts.append(_text(at, y + 14, text, style))
        at += _width(text, 10.5) + 10
    if _dots(edge):
        dot = x + wire.text_width - DOT / 2
        parts.append(f'<circle cx="{dot:.1f}" cy="{y:.1f}" r="4.5" fill="{INK}"/>')
        parts.append(_text(dot, y - 9, number_text(edge.initial), "rate", anchor="middle"))
    gap = 9.0
    source_port, target_port = edge.source.partition(".")[2], edge.target.partition(".")[2]
    for (px, py), port, outward in (
        ((ax, ay), source_port, forward),
        ((bx, by), target_port, not forward),
    ):
        anchor, place_x = ("end", px - gap) if outward else ("start", px + gap)
        parts.append(_text(place_x, py + 4, port, "port", anchor=anchor))
    return parts


def _draw_box(box: Box, stage: StageProgram) -> list[str]:
    strong, pale = COLOURS.get(stage.kind, OTHER)
    x, y, width, height = box.x, box.y, box.width, box.height
    middle = x + width / 2
    rule = f"M{x:.1f},{y + HEAD:.1f} h{width:.1f}"
    lines = [
        (stage.kind.upper(), "kind", 15.0),
        (stage.name, "name", 32.0),
        (stage_type(stage), "small", 47.0),
    ]
    if stage.name == stage.kind:  # once is enough
        lines = [(stage.name, "name", 24.0), (stage_type(stage), "small", 42.0)]
    heading = [
        _text(
            middle, y + down, text, style, anchor="middle", fill="" if style == "small" else strong
        )
        for text, style, down in lines
    ]
    return [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="9" '
        f'fill="{pale}" stroke="{strong}" stroke-width="1.5"/>',
        f'<path d="{rule}" stroke="{strong}" stroke-width="0.75" stroke-opacity="0.45"/>',
        *heading,
        _text(middle, y + height - 10, _fires(stage), "small", anchor="middle"),
    ]


def _legend(x: float, y: float, width: float, program: Program) -> list[str]:
    """What the signs mean; only those that occur."""
    latest = any(edge.keep == "latest" for edge in program.edges)
    items = [("line", "every token, in order")] + [("dashed", "newest wins")] * latest
    items += [("dot", "tokens at the start")] * any(map(_dots, program.edges))
    items += [("rate", "tokens a firing, at either end"), ("spec", "dtype[shape] of a token")]
    parts = [f'<path d="M{x},{y - 22} h{width:.1f}" stroke="{RULE}" stroke-opacity="0.25"/>']
    for sign, text in items:
        if sign in ("line", "dashed"):
            dash = ' stroke-dasharray="6 4"' if sign == "dashed" else ""
            parts.append(
                f'<path d="M{x},{y - 4} h26" stroke="{RULE}" stroke-width="1.5"{dash} '
                'marker-end="url(#head)"/>'
            )
            x += 34
        elif sign == "dot":
            parts.append(f'<circle cx="{x + 5}" cy="{y - 4}" r="4.5" fill="{INK}"/>')
            x += 16
        else:
            shown = "1" if sign == "rate" else "float32[3]"
            parts.append(_text(x, y, shown, sign))
            x += _width(shown, 10.5, mono=sign == "spec") + 6
        parts.append(_text(x, y, text, "note"))
        x += _width(text, 10.5) + 22
    return parts


def _text(
    x: float, y: float, text: str, style: str, *, anchor: str = "start", fill: str = ""
) -> str:
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    colour = f' style="fill:{fill}"' if fill else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}"{at}{colour}>{escape(text)}</text>'


def _width(text: str, size: float, *, mono: bool = False) -> float:
    """Width of a text in pixels, rather too large than too small."""
    return len(text) * size * (0.605 if mono else 0.57)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
