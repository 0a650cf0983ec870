"""Another cue for a worker that runs on: a file in the run directory, written before it is told.

Invariant: a file is whole or not there (it is renamed into its place), and only workers that are
told of a change look at it.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ebrl.runtime.emulation.cue import Cue

FOLDER = "cues"


def write_cue(run_dir: str | Path, worker: str, cue: Cue) -> None:
    path = _path(run_dir, worker)
    path.parent.mkdir(exist_ok=True)
    whole = path.with_suffix(".new")
    whole.write_bytes(msgspec.json.encode(cue))
    os.replace(whole, path)


def read_cue(run_dir: str | Path, worker: str) -> Cue | None:
    """None: it was never told another."""
    try:
        data = _path(run_dir, worker).read_bytes()
    except FileNotFoundError:
        return None
    return msgspec.json.decode(data, type=Cue)


def _path(run_dir: str | Path, worker: str) -> Path:
    return Path(run_dir) / FOLDER / f"{worker.replace(' ', '-')}.json"
