"""`ebrl diff`: what differs between two plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(diff)


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A plan.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another plan.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Tell what differs between two plans: + added, - removed, ~ changed. Exits with 4 if anything.

    \b
    Example:
      ebrl diff old.json new.json
    """
    from ebrl.planner.plan import read
    from ebrl.planner.telling.diff import diff as compare

    changes = compare(read(before), read(after))
    if as_json:
        import msgspec

        print(msgspec.json.encode({"differs": bool(changes), "changes": changes}).decode())
    elif changes:
        for change in changes:
            print(change)
    else:
        print("no difference")
    if changes:
        raise typer.Exit(4)
