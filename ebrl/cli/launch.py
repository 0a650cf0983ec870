"""`ebrl launch`: scripts that start a plan on Slurm, on Kubernetes, or its MPS control programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def register(app: typer.Typer) -> None:
    app.command()(launch)


def launch(
    plan: Annotated[Path, typer.Argument(help="The plan to launch.", metavar="PLAN")],
    target: Annotated[
        Literal["slurm", "kubernetes", "mps"],
        typer.Option(help="What starts it: a Slurm job, a Kubernetes RayJob, MPS on each node."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the scripts go.")
    ] = Path("launch"),
    image: Annotated[str, typer.Option(help="Container image, for Kubernetes.")] = "ebrl:latest",
    time: Annotated[str, typer.Option(help="Time limit, for Slurm.")] = "24:00:00",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Write the scripts that launch a plan, and the plan beside them.

    \b
    Example:
      ebrl launch plan.json --target slurm -o launch && (cd launch && sbatch job.sbatch)
    """
    import json

    from ebrl.planner import launch as scripts
    from ebrl.planner.plan import read
    from ebrl.planner.proof.verify import sound

    made = sound(read(plan), str(plan))
    written = scripts.write(made, target, output, options=scripts.Options(image=image, time=time))
    if scripts.needs_ray(made, target) and not _has_engines():
        typer.echo(
            "note: these scripts need an engine on Ray, and `ebrl execute` of this release runs "
            "plans on one machine only; where it has none they end with these words",
            err=True,
        )
    if as_json:
        print(json.dumps({"ok": True, "target": target, "files": [str(each) for each in written]}))
    else:
        for each in written:
            print(each)


def _has_engines() -> bool:
    """Can `ebrl execute` be told an engine?"""
    import inspect

    from ebrl.cli.execute import execute

    return "engine" in inspect.signature(execute).parameters
