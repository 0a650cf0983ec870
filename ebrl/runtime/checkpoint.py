"""Checkpoints: tensors as safetensors beside plain JSON, complete or not there at all.

Invariants: a checkpoint is written into a folder of another name and renamed into place when it is
on disk, so a crash in the middle loses nothing; `latest` always names a complete one. The JSON
carries the digest of the tensors and of the graph, and loading refuses what does not match. Nothing
is unpickled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ebrl.errors import RunError

TENSORS, STATE, LATEST = "tensors.safetensors", "state.json", "latest"
KEEP = 3


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything beside the tensors."""

    format: Literal["ebrl-checkpoint/1"] = "ebrl-checkpoint/1"
    version: int  # policy version
    trained: int  # environment steps trained on
    graph: str
    program_sha256: str
    tensors_sha256: str
    weights_sha256: str  # of what was published
    seed: int
    learner: dict[str, Any]


def save(
    folder: Path, tensors: Mapping[str, Any], state: State, *, keep: int = KEEP
) -> tuple[Path, State]:
    """Write `folder/v00000012`, point `folder/latest` at it, and drop all but the newest `keep`."""
    from safetensors.torch import save_file

    target = folder / f"v{state.version:08d}"
    draft = folder / f".{target.name}.{os.getpid()}"
    draft.mkdir(parents=True)
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft / TENSORS)
        digest = _sha256(draft / TENSORS)
        complete = msgspec.structs.replace(state, tensors_sha256=digest)
        (draft / STATE).write_bytes(msgspec.json.format(msgspec.json.encode(complete)) + b"\n")
        for name in (TENSORS, STATE):
            _sync(draft / name)
        if target.exists():
            shutil.rmtree(target)
        os.replace(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    pointer = folder / f".{LATEST}.{os.getpid()}"
    pointer.write_text(target.name + "\n")
    os.replace(pointer, folder / LATEST)
    _sync(folder)
    for old in sorted(folder.glob("v*"))[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return target, complete


def resolve(path: Path) -> Path:
    """The checkpoint meant by a path: itself, its folder's latest, or a run directory's latest."""
    for folder in (path, path / "checkpoint"):
        if (folder / STATE).is_file():
            return folder
        if (folder / LATEST).is_file():
            return folder / (folder / LATEST).read_text().strip()
    raise RunError(
        "checkpoint-missing",
        "there is no checkpoint here",
        where=str(path),
        hint="give a run directory, or a folder that holds state.json and tensors.safetensors",
    )


def load(path: Path) -> tuple[dict[str, Any], State]:
    """Tensors and state of a checkpoint; RunError where it is cut short, altered or not one."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = resolve(path)
    try:
        state = msgspec.json.decode((folder / STATE).read_bytes(), type=State)
        digest = _sha256(folder / TENSORS)
        if digest != state.tensors_sha256:
            raise RunError(
                "checkpoint-altered",
                f"the tensors are not those that were saved (sha256 {digest[:12]}…, "
                f"recorded {state.tensors_sha256[:12]}…)",
                where=str(folder / TENSORS),
                hint="the file was cut short or changed; resume from an earlier one beside it",
            )
        return load_file(folder / TENSORS), state
    except (OSError, msgspec.DecodeError, SafetensorError) as error:
        raise RunError(
            "checkpoint-unreadable",
            str(error),
            where=str(folder),
            hint="resume from an earlier checkpoint beside it",
        ) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
