"""`ebrl check`: is the graph sound, and what does it look like?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def register(app: typer.Typer) -> None:
    app.command()(check)


def check(
    graph: Annotated[
        Path, typer.Argument(help="The file that declares the graph.", metavar="GRAPH")
    ],
    draw: Annotated[
        Literal["text", "dot", "svg"] | None, typer.Option("--draw", help="Draw the graph.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the drawing here.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Check a graph: types, rates, loops, buffers. All faults are reported at once.

    \b
    Examples:
      ebrl check graphs/pushcube_ppo.py
      ebrl check graphs/pushcube_ppo.py --draw svg -o pushcube.svg
    """
    from ebrl.frontend.report import examine, put, told

    if output is not None and draw is None:
        raise typer.BadParameter("say what to draw: --draw text|dot|svg", param_hint="-o")
    report = examine(graph, draw)
    if output is not None and report.drawing is not None:
        put(report.drawing, output)
    if as_json:
        import msgspec

        print(msgspec.json.encode(report.as_data(with_drawing=output is None)).decode())
    elif report.ok:
        print(told(report, drawn_to=output))
    else:
        typer.echo(told(report), err=True)
    if not report.ok:
        raise typer.Exit(1)
