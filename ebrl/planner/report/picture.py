"""The picture of the graph, in the page's colours.

Invariant: it is drawn from the program inside the plan, which is what was planned, and never by
running the user's file again; whether that file is still the same is said beside it.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from ebrl.frontend.draw import policy_text, rate_text, spec_lines
from ebrl.frontend.drawing import svg
from ebrl.planner.plan import Program
from ebrl.planner.report.inline import inline

NAME = "graph-picture"


class EdgeLine(msgspec.Struct, frozen=True, kw_only=True):
    """An edge, as a row of a table."""

    source: str
    target: str
    rates: str
    spec: tuple[str, ...]
    policy: str


def draw(program: Program) -> str | None:
    """The picture; None for a program without stages or edges to draw."""
    if not program.stages or not program.edges:
        return None
    edges = ", ".join(f"{edge.source} to {edge.target}" for edge in program.edges)
    return inline(
        svg.as_svg(program),
        name=NAME,
        title=f"The graph {program.name}",
        description=f"Edges: {edges}. The table below says the same in words.",
        colours=_colours(),
        style=_style(),
    )


def _colours() -> dict[str, str]:
    """From those of the drawing to those of the page."""
    found = {
        svg.INK: "var(--ink)",
        svg.SOFT: "var(--soft)",
        svg.RULE: "var(--wire)",
        svg.PAPER: "none",
        svg.OTHER[0]: "var(--other-1)",
        svg.OTHER[1]: "var(--other-1-pale)",
    }
    for kind, (strong, pale) in svg.COLOURS.items():
        found |= {strong: f"var(--{kind})", pale: f"var(--{kind}-pale)"}
    return found


def _style() -> str:
    """The drawing's own style sheet, for this picture alone."""
    text = svg.STYLE
    for drawn, shown in _colours().items():
        text = text.replace(drawn, shown)
    return re.sub(r"^([.\w]+) \{", rf".{NAME} \1 {{", text, flags=re.MULTILINE)


def edge_lines(program: Program) -> tuple[EdgeLine, ...]:
    return tuple(
        EdgeLine(
            source=edge.source,
            target=edge.target,
            rates=" → ".join(rate_text(edge)),
            spec=tuple(spec_lines(edge.spec, most=len(edge.spec) or 1)),
            policy=policy_text(edge),
        )
        for edge in program.edges
    )


def file_remark(program: Program) -> str:
    """Whether the declaring file is still what was planned."""
    path = Path(program.path)
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return f"{path} is not at hand now; the picture is of what was planned."
    if digest == program.sha256:
        return f"{path} is unchanged since it was planned."
    return f"{path} has changed since it was planned; the picture is of what was planned."
