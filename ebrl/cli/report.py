"""`ebrl report`: one page about a plan and its run, with pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    plan: Annotated[Path, typer.Argument(help="The plan to report on.", metavar="PLAN")],
    run: Annotated[
        Path | None,
        typer.Option("--run", help="Directory of a run of this plan.", metavar="DIR"),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option("--compare", help="What `ebrl compare --json` printed.", metavar="FILE"),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the page goes.")
    ] = Path("report.html"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Write one self-contained page: the graph, the plan and, with --run, what came of it.

    \b
    Examples:
      ebrl report plan.json -o plan.html
      ebrl report plan.json --run runs/demo -o report.html
      ebrl report plan.json --compare compare.json
    """
    import json

    from ebrl.planner.report import write

    verdict = write(plan, run, output, compare)
    if as_json:
        print(json.dumps({"path": str(output)}))
    else:
        print(verdict)
        print(f"written to {output}")
