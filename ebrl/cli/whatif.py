"""`ebrl whatif`: the same graph on other hardware or under other bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(whatif)


def whatif(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="plan.json of `ebrl plan`.")],
    cluster: Annotated[str | None, typer.Option(help="Other hardware, as for `ebrl plan`.")] = None,
    gpus: Annotated[int, typer.Option(metavar="+N", help="GPUs more or fewer on one node.")] = 0,
    cores: Annotated[int, typer.Option(metavar="+N", help="Cores more or fewer on one node.")] = 0,
    memory: Annotated[float, typer.Option(metavar="+GB", help="Memory more on each GPU.")] = 0.0,
    ram: Annotated[float, typer.Option(metavar="+GB", help="RAM more on each node.")] = 0.0,
    environments: Annotated[int, typer.Option(metavar="+N", help="Environments more.")] = 0,
    max_staleness: Annotated[int | None, typer.Option(min=0, help="Another bound.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Keep the new plan.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Plan again with other hardware or bounds, from the plan alone, and compare.

    \b
    Examples:
      ebrl whatif plan.json --gpus +1
      ebrl whatif plan.json --cores +8 --max-staleness 2
      ebrl whatif plan.json --cluster '4*(h100x8)' -o new.json
    """
    from ebrl.planner.cluster import parse
    from ebrl.planner.plan import read, write
    from ebrl.planner.proof.verify import sound
    from ebrl.planner.telling.diff import diff
    from ebrl.planner.telling.whatif import Change, what_if

    before = sound(read(plan), str(plan))
    change = Change(
        gpus=gpus,
        cores=cores,
        memory_gb=memory,
        ram_gb=ram,
        environments=environments,
        max_staleness=max_staleness,
        cluster=None if cluster is None else parse(cluster),
    )
    if change == Change():
        raise typer.BadParameter("say what should change, for example --gpus +1")
    after = what_if(before, change)
    if output is not None:
        write(after, output)
    old, new = (each.prediction.throughput_env_steps_per_s for each in (before, after))
    if as_json:
        import msgspec

        from ebrl.planner.telling.table import summary

        body = {
            "before": summary(before, str(plan)),
            "after": summary(after, "" if output is None else str(output)),
            "changes": diff(before, after),
        }
        print(msgspec.json.encode(body).decode())
        return
    was, then = (each.prediction.bottleneck for each in (before, after))
    print(f"before  {old:,.1f} environment steps/s  {was}")
    relative = new / old - 1
    same = abs(relative) < max(5e-4, before.prediction.gap, after.prediction.gap)
    told = "the same, as far as is proven" if same else f"{relative:+.1%}"
    print(f"after   {new:,.1f} environment steps/s  {then}  ({told})\n")
    for each in diff(before, after):
        print(each)
