"""What only a running environment can tell: its observation, its action, its episode limit.

A simulator is asked in a process of its own with a time limit, because making an environment
imports half a gigabyte, prints, and may hang or crash. The answer is cached by the stage's
settings, the source of its classes and the versions of the simulator packages.
Invariant: this process never imports a simulator, and a probe that fails is a diagnostic.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from ebrl.errors import EbrlError, GraphError
from ebrl.frontend.cache import recall, remember
from ebrl.frontend.environment import Description, ask
from ebrl.frontend.failure import failure
from ebrl.frontend.load import load_stage
from ebrl.frontend.stage import Stage

LIMIT_S = 120.0
LIMIT_VARIABLE = "EBRL_PROBE_LIMIT_S"
_PACKAGES = (
    "gymnasium",
    "mani-skill",
    "sapien",
    "mujoco",
    "numpy",
    "torch",
    "robosuite",
    "metaworld",
)
_TAIL_LINES = 8


def probe(
    stage: Stage, *, path: str, sha256: str, name: str, where: str, limit_s: float | None = None
) -> Description:
    """What the simulator `name` of the graph at `path` is. GraphError where it cannot tell."""
    limit_s = _limit_s() if limit_s is None else limit_s
    key = _key(stage)
    if (known := recall("probe", key)) is not None:
        try:
            return msgspec.json.decode(known, type=Description)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # cut short or of another version: ask again
    with tempfile.TemporaryDirectory(prefix="ebrl-probe-") as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "ebrl.frontend.probe", path, sha256, name, str(answer)]
        code, stderr = _run(command, limit_s)
        data = answer.read_bytes() if answer.exists() else b""
    if code is None:
        raise GraphError(
            "probe-timeout",
            f"the simulator {name!r} said nothing within {limit_s:g} s{_tail(stderr)}",
            where=where,
            hint=f"make it by hand to see what it waits for, or allow more with {LIMIT_VARIABLE}",
        )
    try:
        found = msgspec.json.decode(data, type=Description | GraphFault)
    except (msgspec.DecodeError, UnicodeDecodeError):
        ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        text = f"the process that made the environment of {name!r} {ended}{_tail(stderr)}"
        hint = "make it by hand to see why; ebrl doctor tells what this machine lacks"
        raise GraphError("probe-failed", text, where=where, hint=hint) from None
    if isinstance(found, GraphFault):
        text = f"the environment of {name!r} could not be made: {found.message}"
        raise GraphError(found.code, text, where=found.where or where, hint=found.hint)
    remember("probe", key, data)
    return found


class GraphFault(msgspec.Struct, frozen=True, kw_only=True, tag="fault"):
    """The child's way to say that it could not."""

    code: str
    message: str
    where: str = ""
    hint: str = ""


def _limit_s() -> float:
    """The time limit: the user's, where it is a positive number, or ours."""
    try:
        limit_s = float(os.environ.get(LIMIT_VARIABLE, LIMIT_S))
    except ValueError:
        return LIMIT_S
    return limit_s if limit_s > 0 else LIMIT_S


def _key(stage: Stage) -> str:
    digest = hashlib.sha256(stage.fingerprint().encode())
    for cls in type(stage).__mro__[:-1]:
        try:
            file = inspect.getsourcefile(cls)
        except TypeError:
            file = None
        if file is not None and Path(file).is_file():
            digest.update(Path(file).read_bytes())
    for package in _PACKAGES:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            version = ""
        digest.update(f"{package}={version};".encode())
    return digest.hexdigest()


def _run(command: list[str], limit_s: float) -> tuple[int | None, str]:
    """Exit code (None: out of time, and the whole tree killed) and what it said on stderr."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *(each or os.getcwd() for each in sys.path)]  # imports find what they find here
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    try:
        _, stderr = child.communicate(timeout=limit_s)
        return child.returncode, stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        _, stderr = child.communicate()
        return None, stderr.decode(errors="replace")
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise


def _tail(stderr: str) -> str:
    lines = [line.rstrip() for line in stderr.splitlines() if line.strip()]
    return "".join(f"\n  | {line}" for line in lines[-_TAIL_LINES:])


def _child(path: str, sha256: str, name: str, answer: str) -> None:
    folder = Path(path).parent
    try:
        stage = load_stage(path, sha256, name)
        result: Description | GraphFault = ask(stage)
    except Exception as error:
        told = failure(error, folder=folder, fallback="")
        first = told.diagnostics[0]
        code = first.code if isinstance(error, EbrlError) else "probe-failed"
        result = GraphFault(code=code, message=first.message, where=first.where, hint=first.hint)
    Path(answer).write_bytes(msgspec.json.encode(result))


if __name__ == "__main__":
    _child(*sys.argv[1:5])
