"""The `ebrl` command: one module a command, each with `register(app)`. Parse, call, print; no logic."""

from __future__ import annotations

import importlib
import sys

import typer

from ebrl.errors import EbrlError

COMMANDS = ("check", "plan", "execute", "report", "doctor")

app = typer.Typer(
    name="ebrl",
    help="Declare a simulate-generate-train pipeline, compile it to a plan, execute the plan.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Entry point. A user's mistake is printed without a traceback and gives its exit code."""
    for name in COMMANDS:
        importlib.import_module(f"ebrl.cli.{name}").register(app)
    try:
        app()
    except EbrlError as error:
        for diagnostic in error.diagnostics:
            print(diagnostic, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
