"""Checkpoints: tensors as safetensors beside plain JSON, complete or not there at all.

Invariants: a checkpoint is written into a folder of another name and renamed into place when it is
on disk, so a crash in the middle loses nothing; `latest` always names a complete one. The JSON
carries its own digest and that of the tensors, and loading refuses what does not match. Nothing is
unpickled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any, Literal

import msgspec

from ebrl.errors import RunError

TENSORS, STATE, LATEST, BEST = "tensors.safetensors", "state.json", "latest", "best"
KEEP = 3


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything beside the tensors."""

    format: Literal["ebrl-checkpoint/2"] = "ebrl-checkpoint/2"
    version: int  # policy version
    trained: int  # environment steps trained on
    graph: str
    program_sha256: str
    plan_sha256: str  # of the plan that was active
    tensors_sha256: str = ""
    weights_sha256: str  # of what was published
    seed: int
    anew: bool = False  # episodes begin anew from here: what resumes equals what never stopped
    decisions: list[int] = []  # of each environment, ever; keys its action noise
    lives: list[int] = []  # times that each environment was built; keys its seeds
    learner: dict[str, Any]
    sha256: str = ""  # of this, with an empty string here


def save(folder: Path, tensors: bytes, state: State, *, keep: int = KEEP) -> tuple[Path, State]:
    """Write `folder/v00000012`, point `folder/latest` at it, and drop old ones.

    The newest `keep` stay, the one that `folder/best` names, and the newest from which a run can
    be continued exactly. OSError where the disk does not take it; then all is as it was.
    """
    target = folder / f"v{state.version:08d}"
    draft = folder / f".{target.name}.{os.getpid()}"
    complete = sealed(
        msgspec.structs.replace(state, tensors_sha256=hashlib.sha256(tensors).hexdigest())
    )
    if _same(target, complete):
        point(folder, LATEST, target.name)
        return target, complete
    aside = folder / f".{target.name}.{os.getpid()}.old"
    try:
        draft.mkdir(parents=True)
        _write(draft / TENSORS, tensors)
        _write(draft / STATE, msgspec.json.format(msgspec.json.encode(complete)) + b"\n")
        _sync(draft)
        if target.exists():
            os.replace(target, aside)
        os.replace(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    point(folder, LATEST, target.name)
    shutil.rmtree(aside, ignore_errors=True)
    _drop(folder, keep)
    return target, complete


def point(folder: Path, name: str, target: str) -> None:
    """Make `folder/name` say `target`, at once."""
    pointer = folder / f".{name}.{os.getpid()}"
    try:
        _write(pointer, target.encode() + b"\n")
        os.replace(pointer, folder / name)
    except OSError:
        pointer.unlink(missing_ok=True)
        raise
    _sync(folder)


def sealed(state: State) -> State:
    """With its own digest."""
    return msgspec.structs.replace(state, sha256=_seal(state))


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


def exact(path: Path) -> Path:
    """As `resolve`, but the newest one at which episodes begin anew, where there is any."""
    newest = resolve(path)
    if newest.resolve() == path.resolve():  # this very one was asked for
        return newest
    for folder in sorted(newest.parent.glob("v*"), reverse=True):
        if read(folder).anew:
            return folder
    return newest


def read(path: Path) -> State:
    """The state of a checkpoint, whole and unaltered, its tensors too; RunError if not."""
    return _load(path)[1]


def load_bytes(path: Path) -> tuple[bytes, State]:
    """As `load`, with the tensors as they lie on the disk."""
    return _load(path)


def load(path: Path) -> tuple[dict[str, Any], State]:
    """Tensors and state of a checkpoint; RunError where it is cut short, altered or not one."""
    data, state = _load(path)
    return tensors_of(data, str(path)), state


def tensors_of(data: bytes, where: str) -> dict[str, Any]:
    """Name → torch tensor."""
    from safetensors import SafetensorError
    from safetensors.torch import load as load_tensors

    try:
        return load_tensors(data)
    except SafetensorError as error:
        raise _unreadable(error, where) from error


def bytes_of(tensors: dict[str, Any]) -> bytes:
    """torch tensors as they are kept."""
    from safetensors.torch import save as save_tensors

    return save_tensors({name: tensor.contiguous() for name, tensor in tensors.items()})


def belongs(state: State, path: Path, *, graph: str, program_sha256: str | None) -> None:
    """RunError unless it is of this graph; `program_sha256` None: however the file changed."""
    if state.graph == graph and program_sha256 in (None, state.program_sha256):
        return
    was = f"`{state.graph}` (sha256 {state.program_sha256[:12]}…)"
    raise RunError(
        "checkpoint-of-another-graph",
        f"the checkpoint is of {was}, the plan of `{graph}`"
        + (f" (sha256 {program_sha256[:12]}…)" if program_sha256 else ""),
        where=str(path),
        hint="resume with the graph that wrote it; if the file has changed and its network has "
        "not, --allow-changed-graph accepts it"
        if state.graph == graph
        else "resume with the graph that wrote it",
    )


def _load(path: Path) -> tuple[bytes, State]:
    folder = resolve(path)
    try:
        state = msgspec.json.decode((folder / STATE).read_bytes(), type=State)
        data = (folder / TENSORS).read_bytes()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error, str(folder)) from error
    found = hashlib.sha256(data).hexdigest()
    for name, digest, recorded in (
        (STATE, _seal(state), state.sha256),
        (TENSORS, found, state.tensors_sha256),
    ):
        if digest != recorded:
            raise RunError(
                "checkpoint-altered",
                f"{name} is not what was saved (sha256 {digest[:12]}…, recorded {recorded[:12]}…)",
                where=str(folder / name),
                hint="the file was cut short or changed; resume from an earlier one beside it",
            )
    return data, state


def _seal(state: State) -> str:
    bare = msgspec.structs.replace(state, sha256="")
    return hashlib.sha256(msgspec.json.encode(bare, order="sorted")).hexdigest()


def _unreadable(error: Exception, where: str) -> RunError:
    return RunError(
        "checkpoint-unreadable",
        f"this is not a checkpoint of this version, or not a whole one: {error}",
        where=where,
        hint="resume from an earlier checkpoint beside it",
    )


def _drop(folder: Path, keep: int) -> None:
    """Old checkpoints, and drafts that a crash left."""
    found = sorted(folder.glob("v*"))
    kept = {each.name for each in found[-keep:]}
    if (folder / BEST).is_file():
        kept.add((folder / BEST).read_text().strip())
    for each in reversed(found):
        if _begins_anew(each):
            kept.add(each.name)
            break
    mine = f".{os.getpid()}"
    for old in (*found, *folder.glob(".v*")):
        if old.name not in kept and not old.name.endswith(mine):
            shutil.rmtree(old, ignore_errors=True)


def _same(folder: Path, state: State) -> bool:
    """Is exactly this there already?"""
    try:
        return read(folder) == state
    except RunError:
        return False


def _begins_anew(folder: Path) -> bool:
    try:
        return msgspec.json.decode((folder / STATE).read_bytes(), type=State).anew
    except (OSError, msgspec.DecodeError):
        return False


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
