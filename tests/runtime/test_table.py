"""The live table, on a terminal: a run must end as well there as anywhere."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

from ebrl.planner.plan import encode
from tests.runtime.support import GRAPHS, plan_of


def test_a_run_on_a_terminal_shows_its_table_to_the_end(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(encode(plan_of(GRAPHS / "cartpole.py")))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ebrl.cli.main", "execute", str(plan)]
    with subprocess.Popen(
        [*command, "--steps", "1000", "--logdir", str(tmp_path / "run")],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal says that nobody writes any more
            while piece := os.read(ours, 65536):
                shown += piece
        os.close(ours)
    assert process.returncode == 0, shown.decode()
    table = shown[shown.rindex(b"ledger") :]
    assert b"trained" in table
    assert b"in flight" in table
    assert b"internal-error" not in shown
