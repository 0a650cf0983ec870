"""The command line around every command: what a user sees when something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

import ebrl
from ebrl.cli import main as cli
from ebrl.cli.main import run
from ebrl.errors import Diagnostic, GraphError, InfeasibleError

Raises = Callable[[BaseException], None]


@pytest.fixture
def check_raises(monkeypatch: pytest.MonkeyPatch) -> Raises:
    """Makes `ebrl check` end with the given exception."""

    def arrange(error: BaseException) -> None:
        def check(as_json: bool = typer.Option(False, "--json")) -> None:
            raise error

        command = SimpleNamespace(register=lambda app: app.command()(check))
        monkeypatch.setitem(sys.modules, "ebrl.cli.check", command)

    return arrange


def program(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """The real program."""
    return subprocess.run(
        [sys.executable, "-m", "ebrl", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **settings},
    )


def test_version():
    done = program("--version")
    assert (done.returncode, done.stdout) == (0, f"ebrl {ebrl.__version__}\n")


def test_help_names_every_command_and_shows_examples(capsys: pytest.CaptureFixture[str]):
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in cli.COMMANDS)
    assert "ebrl plan graphs/pushcube_ppo.py --cluster local -o plan.json" in out


def test_every_module_that_registers_a_command_is_a_command():
    folder = Path(cli.__file__).parent
    modules = {each.stem for each in folder.glob("*.py") if "def register(" in each.read_text()}
    assert modules == set(cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]):
    assert run([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Example" in out
    assert "--json" in out


def test_a_mistyped_command_is_a_usage_error_with_the_near_miss():
    done = program("dcotor")
    assert done.returncode == 2
    assert "doctor" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_usage_error_in_json_is_one_object_on_stdout():
    done = program("doctor", "--jsn", "--json")
    assert done.returncode == 2
    told = json.loads(done.stdout)
    assert told["ok"] is False
    (diagnostic,) = told["diagnostics"]
    assert diagnostic["code"] == "usage"
    assert "--jsn" in diagnostic["message"]
    assert diagnostic["hint"] == "see ebrl doctor --help"


def test_no_command_shows_help_and_is_a_usage_error():
    done = program()
    assert done.returncode == 2
    assert "Commands:" in done.stdout + done.stderr


def test_every_diagnostic_is_printed_without_a_traceback(
    check_raises: Raises, capsys: pytest.CaptureFixture[str]
):
    faults = [
        Diagnostic(code="rate", message="1/2 is not 1", where="g.py:3", hint="set rate=2"),
        Diagnostic(code="loop", message="no initial token"),
    ]
    check_raises(GraphError.of(faults))
    assert run(["check"]) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.splitlines() == [
        "g.py:3: rate: 1/2 is not 1",
        "  hint: set rate=2",
        "loop: no initial token",
    ]


def test_errors_in_json_carry_every_diagnostic_and_the_exit_code(
    check_raises: Raises, capsys: pytest.CaptureFixture[str]
):
    check_raises(InfeasibleError("memory", "needs 92 GB, has 80", hint="max_staleness 2"))
    assert run(["check", "--json"]) == 3
    streams = capsys.readouterr()
    assert json.loads(streams.out) == {
        "ok": False,
        "diagnostics": [
            {
                "code": "memory",
                "message": "needs 92 GB, has 80",
                "where": "",
                "hint": "max_staleness 2",
            }
        ],
    }
    assert streams.err == ""


def test_our_own_mistake_is_told_shortly_and_the_traceback_on_request(
    check_raises: Raises,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("EBRL_TRACEBACK", raising=False)
    check_raises(ZeroDivisionError("division by zero"))
    assert run(["check"]) == 70
    err = capsys.readouterr().err
    assert "internal-error: ZeroDivisionError: division by zero" in err
    assert "EBRL_TRACEBACK=1" in err
    assert "Traceback" not in err
    monkeypatch.setenv("EBRL_TRACEBACK", "1")
    assert run(["check"]) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_interrupt_ends_quietly(check_raises: Raises, capsys: pytest.CaptureFixture[str]):
    check_raises(KeyboardInterrupt())
    assert run(["check"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_command_may_choose_its_exit_code(check_raises: Raises):
    check_raises(typer.Exit(4))
    assert run(["check"]) == 4


def test_a_reader_that_goes_away_is_no_reason_to_complain():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "ebrl", "doctor", "--help"],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr == ""
    assert done.returncode == 141
