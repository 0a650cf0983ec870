"""`ebrl doctor`: what this machine has and lacks, with the fix."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Tell what this machine has and lacks for planning and running here, with the exact fix.

    \b
    Example:
      ebrl doctor

    Exits with 1 when something is missing that every run needs.
    """
    from ebrl.runtime.doctor import examine, fit

    checks = examine()
    if as_json:
        import msgspec

        print(msgspec.json.encode({"ok": fit(checks), "checks": checks}).decode())
    else:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold")
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for each in checks:
            mark = "yes" if each.ok else "NO" if each.required else "no"
            style = "green" if each.ok else "bold red" if each.required else "yellow"
            told = Text(each.detail)
            if not each.ok:
                told.append(f"\nfix: {each.fix}", style="dim")
            table.add_row(Text(mark, style=style), each.name, told)
        console = Console()
        console.print(table)
        missing = [each.name for each in checks if each.required and not each.ok]
        console.print(
            f"\nNothing runs here without: {', '.join(missing)}."
            if missing
            else "\nEverything that a run on this machine's cores needs is here."
        )
    if not fit(checks):
        raise typer.Exit(1)
