"""The `ebrl` command: a module a command, each with `register(app)`. Parse, call, print; no logic.

Invariants: a command's module is imported when it is asked for, and imports what is heavy inside
its function, so `ebrl check` never waits for torch. Whatever goes wrong, a user sees what and what
to do, not a traceback; with `--json` as one object on stdout. Exit codes: 0 done, 1 the user's
mistake, 2 usage, 3 infeasible, 4 differs or drifted, 70 our mistake, 130 interrupted, 141 the
reader of our output went away.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from ebrl import __version__
from ebrl.errors import Diagnostic, EbrlError

# In the order in which a newcomer meets them.
COMMANDS = (
    "check",
    "profile",
    "plan",
    "explain",
    "diff",
    "whatif",
    "simulate",
    "compare",
    "execute",
    "drift",
    "report",
    "clusters",
    "launch",
    "doctor",
)

HELP = """Declare a simulate, generate, train pipeline; compile it to a plan; execute the plan.

\b
Examples:
  ebrl check graphs/pushcube_ppo.py
  ebrl plan graphs/pushcube_ppo.py --cluster local -o plan.json
  ebrl execute plan.json
  ebrl doctor

Every command takes --json (one object on stdout) and --help. EBRL_TRACEBACK=1 shows tracebacks.
"""

INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130
READER_GONE = 141
# Click's own, or the copy of it that newer releases of typer carry; in both a BadParameter is a
# UsageError is a ClickException.
ClickException = typer.BadParameter.__mro__[2]


def main() -> None:
    """Entry point."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    as_json = "--json" in arguments
    try:
        code = _build(arguments)(list(arguments), prog_name="ebrl", standalone_mode=False)
        sys.stdout.flush()
    except EbrlError as error:
        return _fail(error.diagnostics, error.exit_code, as_json)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered goes nowhere, or Python would complain about it while exiting.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except SystemExit as error:
        # Typer turns a broken pipe into an exit of its own.
        if isinstance(error.__context__, BrokenPipeError):
            return READER_GONE
        raise
    except Exception as error:
        if isinstance(error, ClickException):
            return _usage(error, as_json)
        if os.environ.get("EBRL_TRACEBACK"):
            traceback.print_exc()
        return _fail((_internal(error),), INTERNAL_ERROR, as_json)
    return code if isinstance(code, int) else 0


def _build(arguments: Sequence[str]) -> typer.Typer:
    """The application with the one command that was asked for, or with all of them for help."""
    app = typer.Typer(
        name="ebrl",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(help=HELP)(_options)
    asked = arguments[0] if arguments else ""
    for name in [asked] if asked in COMMANDS else COMMANDS:
        importlib.import_module(f"ebrl.cli.{name}").register(app)
    return app


def _version(asked: bool) -> None:
    if asked:
        print(f"ebrl {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options that stand before a command; `version` has done its work when this is called."""
    del version


def _fail(diagnostics: Sequence[Diagnostic], code: int, as_json: bool) -> int:
    if as_json:
        rows = [
            {"code": each.code, "message": each.message, "where": each.where, "hint": each.hint}
            for each in diagnostics
        ]
        print(json.dumps({"ok": False, "diagnostics": rows}))
    else:
        for each in diagnostics:
            print(each, file=sys.stderr)
    return code


def _usage(error: Exception, as_json: bool) -> int:
    """A wrong command line: what typer says of it, and the way to the right one."""
    code: int = getattr(error, "exit_code", 2)
    if as_json:
        message: str = error.format_message() if hasattr(error, "format_message") else str(error)
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "ebrl"
        return _fail(
            (Diagnostic(code="usage", message=message, hint=f"see {command} --help"),), code, True
        )
    if hasattr(error, "show"):
        error.show()
    return code


def _internal(error: Exception) -> Diagnostic:
    """A mistake of ours: short, with the place and how to see the rest."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}ebrl{os.sep}" in frame.filename] or frames
    place = f"{ours[-1].filename}:{ours[-1].lineno}" if ours else ""
    return Diagnostic(
        code="internal-error",
        message=f"{type(error).__name__}: {error}".strip().rstrip(":"),
        where=place,
        hint="this is a fault in ebrl; run again with EBRL_TRACEBACK=1 to see the traceback",
    )


if __name__ == "__main__":
    main()
