"""`ebrl clusters`: the devices that `--cluster` knows."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def register(app: typer.Typer) -> None:
    app.command()(clusters)


def clusters(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """List the catalogue of devices: what they are, how they are shared, what a node brings along.

    \b
    Examples of what --cluster takes:
      local                               this machine
      cpu16, 2*(cpu64)                    nodes of cores alone
      a100x8, 4*(h100x8/cores=96)         nodes of devices, with options
      2*(a100x8)+1*(l40sx4)+3*(cpu64)     a mixture
      ray                                 the running Ray cluster's own resources
      lab.yaml                            a file: prices, network, NUMA, devices of your own
    """
    from ebrl.planner import devices

    entries = devices.entries()
    if as_json:
        import msgspec

        print(msgspec.json.encode({"devices": [devices.row(each) for each in entries]}).decode())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in devices.HEADINGS:
        side: Literal["left", "right"] = "left" if heading in ("device", "quota") else "right"
        table.add_column(heading, justify=side, no_wrap=True)
    for each in entries:
        table.add_row(*devices.cells(each))
    Console(soft_wrap=True).print(table)
    print(devices.LEGEND)
