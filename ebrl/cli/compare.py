"""`ebrl compare`: other systems' schedules on the same graph, times and machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ebrl.frontend.program import Program
    from ebrl.planner.foresight.compare import Comparison
    from ebrl.planner.profile import Point


def register(app: typer.Typer) -> None:
    app.command()(compare)


def compare(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="The file with the graph.")],
    cluster: Annotated[str, typer.Option(help="Hardware, as for `ebrl plan`.")],
    profile: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Stage times; may be repeated.")
    ] = None,
    max_staleness: Annotated[int | None, typer.Option(min=0, help="Another bound.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Some strategies; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that varies.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bars, as svg, png or pdf.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Simulate how other systems would schedule this pipeline, and ours with parts left out.

    \b
    Examples:
      ebrl compare graphs/pi05_libero.py --cluster a100x8
      ebrl compare graphs/gr00t_robocasa.py --cluster h100x8 --picture bars.svg
    """
    import msgspec

    from ebrl.frontend.check import check
    from ebrl.frontend.load import load_graph
    from ebrl.planner.cluster import parse
    from ebrl.planner.foresight import picture as bars
    from ebrl.planner.foresight.compare import check_names
    from ebrl.planner.foresight.compare import compare as run
    from ebrl.planner.foresight.conditions import Conditions
    from ebrl.planner.model.request import CompileOptions
    from ebrl.planner.prepare import Request, stage_times

    if picture is not None:
        bars.check(picture)
    names = check_names(only or ())
    hardware = parse(cluster)
    program = check(load_graph(graph))
    request = Request(graph=graph, cluster=cluster, profiles=tuple(profile or ()))
    program, points = stage_times(program, hardware, request, _calibrate)
    comparison = run(
        program,
        hardware,
        points,
        options=CompileOptions(max_staleness=max_staleness),
        conditions=Conditions(seed=seed),
        only=names,
        say=lambda name: typer.echo(f"  {name} …", err=True),
    )
    if picture is not None:
        bars.draw(comparison, picture, f"{program.name} on {cluster}")
    if as_json:
        body = msgspec.to_builtins(comparison)
        del body["plans"]
        body["picture"] = None if picture is None else str(picture)
        print(msgspec.json.encode(body).decode())
        return
    _tell(comparison)
    if picture is not None:
        print(f"\nwritten to {picture}")


def _calibrate(program: Program, graph: Path) -> tuple[tuple[Point, ...], int]:
    """On cores alone, without a profile: as `ebrl plan` does."""
    from ebrl.cli.plan import _calibrate as calibrate

    return calibrate(program, graph)


def _tell(comparison: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table

    from ebrl.planner.foresight import compare as told

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading in told.HEADINGS:
        left = heading == "strategy"
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for row in comparison.rows:
        table.add_row(*told.cells(row))
    console.print(table)
    console.print()
    for line in told.told(comparison):
        console.print(line, markup=False, soft_wrap=True)
