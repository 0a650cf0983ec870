"""`ebrl simulate`: what a plan will do, by discrete events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(simulate)


def simulate(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="plan.json of `ebrl plan`.")],
    seconds: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.0, help="Time to simulate; else some sixty updates."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that varies.")] = 0,
    spread: Annotated[
        float | None,
        typer.Option(min=0.0, help="p95 over median − 1 where the profile states no spread."),
    ] = None,
    stragglers: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Chance of a call that takes 5 times as long.")
    ] = 0.0,
    episode_steps: Annotated[
        float | None,
        typer.Option(min=1.0, help="Mean length of an episode; else each runs to its limit."),
    ] = None,
    why: Annotated[
        bool, typer.Option(help="Find out why it differs from the plan's prediction.")
    ] = True,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a timeline that opens in ui.perfetto.dev."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Simulate a plan: every replica, environment, batch, segment and update.

    \b
    Examples:
      ebrl simulate plan.json
      ebrl simulate plan.json --seconds 60 --trace trace.json
      ebrl simulate plan.json --spread 0.3 --stragglers 0.01 --seed 7
    """
    import msgspec

    from ebrl.planner.foresight import telling
    from ebrl.planner.foresight.conditions import Conditions
    from ebrl.planner.foresight.simulate import simulate as run
    from ebrl.planner.foresight.why import explain
    from ebrl.planner.plan import read

    given = read(plan)
    conditions = Conditions(
        seconds=seconds,
        seed=seed,
        spread=spread,
        stragglers=stragglers,
        episode_steps=episode_steps,
    )
    outcome, events = run(given, conditions, trace=trace is not None)
    if why:
        outcome = msgspec.structs.replace(outcome, why=explain(given, outcome, conditions))
    if trace is not None and events is not None:
        events.write(trace)
    if as_json:
        where = None if trace is None else str(trace)
        print(msgspec.json.encode(telling.body(given, outcome, where)).decode())
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading in telling.HEADINGS:
        table.add_column(heading, justify="left" if heading == "stage" else "right", no_wrap=True)
    for row in telling.rows(outcome):
        table.add_row(*row)
    console.print(table)
    console.print()
    for line in telling.told(outcome):
        console.print(line, markup=False, soft_wrap=True)
    if trace is not None:
        console.print(f"\nwritten to {trace}; open it in ui.perfetto.dev", markup=False)
