"""`ebrl plan`: a graph, hardware and stage times become a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ebrl.frontend.program import Program
    from ebrl.planner.foresight.choose import Foreseen
    from ebrl.planner.hardware import Cluster
    from ebrl.planner.model.request import CompileOptions
    from ebrl.planner.plan import Plan
    from ebrl.planner.profile import Point


def register(app: typer.Typer) -> None:
    app.command()(plan)


def plan(
    graph: Annotated[
        Path, typer.Argument(help="The file that declares the graph.", metavar="GRAPH")
    ],
    cluster: Annotated[
        str,
        typer.Option(
            help="Hardware: local, cpu16, a100x8, 4*(h100x8), mixes with +, or a YAML file."
        ),
    ] = "local",
    profile: Annotated[
        list[Path] | None, typer.Option(help="Measured stage times; may be given several times.")
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STAGE.KEY=V",
            help="Insist on a choice: replicas, batch, sms, cores, or environments of a simulator.",
        ),
    ] = None,
    max_staleness: Annotated[
        int | None, typer.Option(min=0, help="Policy versions; 0 alternates rollout and training.")
    ] = None,
    maximize: Annotated[
        Literal["throughput"] | None, typer.Option(help="The default objective.")
    ] = None,
    minimize: Annotated[
        Literal["cost", "devices"] | None, typer.Option(help="Needs --at-least.")
    ] = None,
    at_least: Annotated[
        float | None, typer.Option(help="Environment steps a second that have to be reached.")
    ] = None,
    time_limit: Annotated[
        float, typer.Option(min=0.1, help="Seconds for the solver; the answer then says so.")
    ] = 60.0,
    foresee: Annotated[
        bool,
        typer.Option(help="Choose the number of environments by simulation: slower, often better."),
    ] = False,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the plan goes.")
    ] = Path("plan.json"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Compile a graph for a cluster: who runs where, with how much, and how fast that will be.

    \b
    Examples:
      ebrl plan graphs/pushcube_ppo.py --cluster local -o plan.json
      ebrl plan graphs/pi05_libero.py --cluster '4*(a100x8)' --pin generate.batch=32
      ebrl plan graphs/pi05_libero.py --cluster '8*(h100x8)' --minimize cost --at-least 500

    Without --profile, a plan for cores alone measures the stages here first (seconds, cached); for
    other hardware the shipped profiles and declared work are used, and what is estimated says so.
    """
    from ebrl.planner.model.request import CompileOptions, objective, parse_pin
    from ebrl.planner.plan import write
    from ebrl.planner.prepare import Request, prepare

    options = CompileOptions(
        pins=tuple(parse_pin(text) for text in pin or ()),
        max_staleness=max_staleness,
        objective=objective(maximize, minimize, at_least),
        at_least=at_least,
        time_limit_s=time_limit,
    )
    seen: list[Foreseen] = []
    made = prepare(
        Request(graph=graph, cluster=cluster, profiles=tuple(profile or ()), options=options),
        calibrate=_calibrate,
        by=(lambda *given: _choose(seen, *given)) if foresee else None,
    )
    write(made, output)
    if as_json:
        import msgspec

        from ebrl.planner.telling.table import summary

        told = summary(made, str(output))
        print(msgspec.json.encode({**told, "foreseen": seen} if foresee else told).decode())
    else:
        _tell(made, output, seen)


def _choose(
    seen: list[Foreseen],
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
) -> Plan:
    from ebrl.planner.foresight.choose import choose

    def say(each: Foreseen) -> None:
        typer.echo(
            f"{each.environments} environments: {each.foreseen_env_steps_per_s:,.1f} steps/s",
            err=True,
        )

    plan, tried = choose(program, cluster, points, options, say)
    seen.extend(tried)
    return plan


def _calibrate(program: Program, graph: Path) -> tuple[tuple[Point, ...], int]:
    from ebrl.frontend.cache import cache_folder
    from ebrl.runtime.profiling.calibrate import calibrate

    found = calibrate(
        program, graph, cache=cache_folder(), say=lambda text: typer.echo(text, err=True)
    )
    return found.points, found.weights_bytes


def _tell(plan: Plan, path: Path, seen: Sequence[Foreseen]) -> None:
    from rich.console import Console
    from rich.table import Table

    from ebrl.planner.telling.table import HEADINGS, cells, stage_rows, told

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        left = heading in ("stage", "device", "source")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for row in stage_rows(plan):
        table.add_row(*cells(row))
    console.print(table)
    console.print()
    *lines, blank, where = told(plan, path)
    for line in (*lines, *_foreseen(seen), blank, where):
        console.print(line, markup=False, soft_wrap=True)


def _foreseen(seen: Sequence[Foreseen]) -> list[str]:
    if not seen:
        return []
    best, *others = seen
    rest = ", ".join(f"{e.environments}: {e.foreseen_env_steps_per_s:,.1f}" for e in others)
    return [
        f"foreseen    {best.foreseen_env_steps_per_s:,.1f} steps/s in a simulation with "
        f"{best.environments} environments (with {rest})"
    ]
