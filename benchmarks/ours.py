"""Our own commands, each in a process of its own as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def ebrl(*arguments: str, **environment: str) -> dict[str, Any]:
    """`ebrl … --json`, with these environment variables beside ours; its answer.

    Raises RuntimeError, with all that was printed, where the command failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "ebrl.cli.main", *arguments, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    if done.returncode != 0:
        raise RuntimeError(f"ebrl {arguments[0]} failed:\n{done.stdout}\n{done.stderr}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told
