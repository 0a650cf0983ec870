"""What `ebrl check` tells: the verdict, every diagnostic, or the checked graph and its drawing."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Literal

import msgspec

from ebrl.errors import Diagnostic, EbrlError, GraphError
from ebrl.frontend.check import check
from ebrl.frontend.draw import as_dot, as_text
from ebrl.frontend.drawing.svg import as_svg
from ebrl.frontend.load import load_graph
from ebrl.frontend.place import display
from ebrl.frontend.program import Program
from ebrl.frontend.rates import smallest

Drawing = Literal["text", "dot", "svg"]
_DRAW = {"text": as_text, "dot": as_dot, "svg": as_svg}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One examination: the program where nothing is wrong, else diagnostics."""

    path: str
    diagnostics: tuple[Diagnostic, ...] = ()
    program: Program | None = None
    drawing: str | None = None

    @property
    def ok(self) -> bool:
        return self.program is not None

    def as_data(self, *, with_drawing: bool = False) -> dict[str, object]:
        """The JSON object, with the same keys whether the graph is sound or not."""
        data: dict[str, object] = {
            "ok": self.ok,
            "diagnostics": msgspec.to_builtins(self.diagnostics),
            "repetition": repetition(self.program) if self.program else {},
            "stages": msgspec.to_builtins(self.program.stages) if self.program else [],
            "edges": msgspec.to_builtins(self.program.edges) if self.program else [],
        }
        if with_drawing and self.drawing is not None:
            data["drawing"] = self.drawing
        return data


def repetition(program: Program) -> dict[str, int]:
    """Firings of each stage in one iteration, the smallest whole numbers."""
    return smallest({each.name: Fraction(each.rate) for each in program.stages})


def examine(path: Path, draw: Drawing | None = None) -> Report:
    """Load, check and draw; what is wrong is in the report, not raised."""
    try:
        program = check(load_graph(path))
    except EbrlError as error:
        return Report(path=display(path), diagnostics=error.diagnostics)
    drawing = _DRAW[draw](program) if draw is not None else None
    return Report(path=display(path), program=program, drawing=drawing)


def put(drawing: str, output: Path) -> None:
    """Write the drawing. GraphError where the file cannot be written."""
    try:
        output.write_text(drawing, encoding="utf-8")
    except OSError as error:
        text = f"cannot write the drawing: {error.strerror}"
        raise GraphError("drawing-unwritable", text, where=str(output)) from None


def told(report: Report, drawn_to: Path | None = None) -> str:
    """For the terminal: the faults, or the drawing that was asked for, or the listing."""
    if report.program is None:
        count = len(report.diagnostics)
        faults = "\n\n".join(str(each) for each in report.diagnostics)
        return f"{faults}\n\n{count} fault{'s' * (count != 1)} in {report.path}"
    if drawn_to is not None:
        return f"drew {report.program.name} to {drawn_to}"
    if report.drawing is not None:
        return report.drawing.rstrip("\n")
    return f"{as_text(report.program)}\n{report.path} is sound"
