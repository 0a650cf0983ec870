"""`ebrl drift`: has a run drifted from its plan? It only looks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DRIFTED = 4


def register(app: typer.Typer) -> None:
    app.command()(drift)


def drift(
    run: Annotated[
        Path, typer.Option("--run", metavar="DIR", help="Directory of a run, going on or ended.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Compare the stage times of a run with its plan's profile; exit code 4 when it has drifted.

    \b
    Example:
      ebrl drift --run runs/pushcube-ppo-20250101-120000

    The test is the one that a run applies to itself before it plans again; nothing is changed.
    """
    from ebrl.runtime.watch.check import check

    found = check(run)
    if as_json:
        import msgspec

        print(msgspec.json.encode(found).decode())
    else:
        _tell(found)
    if found.drifted:
        raise typer.Exit(DRIFTED)


def _tell(found: object) -> None:
    from rich.console import Console
    from rich.table import Table

    from ebrl.runtime.profiling.show import seconds
    from ebrl.runtime.watch.check import Check

    assert isinstance(found, Check)
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading in ("stage", "batch", "an item", "profile", "ratio", "waits"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for row in found.stages:
        table.add_row(
            row.stage,
            f"{row.batch:.1f}",
            seconds(row.seconds),
            seconds(row.expected_s),
            f"{row.ratio:.2f}×",
            seconds(row.wait_s),
        )
    console.print(table)
    console.print()
    said = f"{found.finding.kind}: {found.finding.text}" if found.drifted else "as planned"
    console.print(f"{said} (over {found.windows} s, {found.plan})", markup=False, soft_wrap=True)
    for decision in found.decisions[-3:]:
        console.print(f"decided      {decision.line()}", markup=False, soft_wrap=True)
