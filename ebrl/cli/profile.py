"""`ebrl profile`: measure the stages of a graph on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ebrl.runtime.profiling.sweep import Measured


def register(app: typer.Typer) -> None:
    app.command()(profile)


def profile(
    graph: Annotated[
        Path, typer.Argument(help="The file that declares the graph.", metavar="GRAPH")
    ],
    cluster: Annotated[
        str, typer.Option(help="local: stages are measured on the machine that this runs on.")
    ] = "local",
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The profile; its picture lies beside it."
        ),
    ] = Path("profile.json"),
    budget: Annotated[
        str, typer.Option(help="Time to measure for, at most: 90, 120s, 5m.")
    ] = "120s",
    precision: Annotated[
        float,
        typer.Option(min=0.011, max=0.5, help="Half of a median's 95% interval, relative."),
    ] = 0.03,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do not go on from an interrupted profiling.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure each stage over quota and batch, alone and in company, until the plan is sure.

    \b
    Examples:
      ebrl profile graphs/cartpole_ppo.py -o profile.json
      ebrl profile graphs/pushcube_ppo.py --budget 5m --precision 0.02 -o profile.json
      ebrl plan graphs/pushcube_ppo.py --cluster local --profile profile.json

    What is measured is kept as it comes (FILE.slices): interrupted, the same command goes on.
    """
    from ebrl.frontend.check import check
    from ebrl.frontend.load import load_graph
    from ebrl.planner.cluster import parse
    from ebrl.runtime.profiling.thorough import Orders, profile_graph

    measured = profile_graph(
        check(load_graph(graph)),
        graph,
        parse(cluster),
        Orders(output=output, budget_s=_seconds(budget), precision=precision, fresh=fresh),
    )
    _tell(measured, output, precision, as_json)


def _seconds(text: str) -> float:
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, factor = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        value = float(number) * factor
    except ValueError:
        value = 0.0
    if not 1.0 <= value < 1e6:
        raise typer.BadParameter(f"{text!r} is no duration, such as 90, 120s or 5m (at least 1s)")
    return value


def _tell(measured: Measured, output: Path, precision: float, as_json: bool) -> None:
    from ebrl.runtime.profiling import show
    from ebrl.runtime.profiling.thorough import picture_of

    if as_json:
        import msgspec

        files = {"profile": str(output), "picture": str(picture_of(output))}
        print(msgspec.json.encode(show.as_json(measured) | files).decode())
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading in show.HEADINGS:
        table.add_column(heading, justify="left" if heading == "stage" else "right", no_wrap=True)
    for row in measured.rows:
        table.add_row(*show.cells(row))
    console.print(table)
    console.print()
    for line in show.told(measured, precision):
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"written to   {output}, {picture_of(output)}", markup=False, soft_wrap=True)
