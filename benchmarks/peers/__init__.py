"""The peers EBRL is measured against, each run in its own interpreter and its own process.

``run_peer`` starts one peer's training script in that peer's virtual environment, gives it a
time limit, and returns the one line of JSON it ends with; nothing of a peer is imported here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCRIPTS = {
    "sb3": "train_sb3.py",
    "sample_factory": "train_sample_factory.py",
    "cleanrl_envpool": "train_cleanrl_envpool.py",
    "torchrl": "train_torchrl.py",
    "rllib": "train_rllib.py",
}
VENVS = {("sb3", "pushcube"): "sb3_maniskill"}  # everything else is named after its peer
TIME_LIMIT = 900.0
TAIL_LINES = 25


class PeerRunError(RuntimeError):
    """A peer's script failed, ran past its time limit, or ended without a result."""


def run_peer(
    name: str,
    env: str,
    *,
    root: Path,
    steps: int,
    settings: Mapping[str, Any],
    time_limit: float = TIME_LIMIT,
) -> dict[str, Any]:
    """Train ``name`` on ``env`` for ``steps`` and return what it measured.

    ``settings`` holds further flags of the script, without their dashes: ``{"envs": 16}``,
    ``{"hidden": (64, 64)}``.  The peer's environment is built under ``root`` where needed, which
    is outside the time limit.
    """
    from .venvs import python_of

    if name not in SCRIPTS:
        raise ValueError(f"unknown peer {name!r}: expected one of {', '.join(SCRIPTS)}")
    python = python_of(VENVS.get((name, env), name), root)
    flags = [f"--env={env}", f"--steps={steps}"]
    flags += [f"--{key.replace('_', '-')}={_text(value)}" for key, value in settings.items()]
    command = [str(python), str(HERE / SCRIPTS[name]), *flags]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(),
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=time_limit)
    except subprocess.TimeoutExpired:
        _end(process)
        output, _ = process.communicate()
        raise PeerRunError(_failure(name, f"ran past {time_limit:.0f} s", output)) from None
    except BaseException:
        _end(process)
        raise
    if process.returncode != 0:
        raise PeerRunError(_failure(name, f"exit {process.returncode}", output))
    try:
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        raise PeerRunError(_failure(name, "no result on the last line", output)) from None
    return result


def _end(process: subprocess.Popen[str]) -> None:
    """End the peer and the workers it started, which share its session."""
    os.killpg(process.pid, signal.SIGKILL)


def _environment() -> dict[str, str]:
    """The caller's environment without what would leak its own Python packages into the peer."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {key: value for key, value in os.environ.items() if key not in dropped}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _failure(name: str, what: str, output: str) -> str:
    tail = "\n".join(output.splitlines()[-TAIL_LINES:])
    return f"peer {name!r}: {what}\n{tail}"
