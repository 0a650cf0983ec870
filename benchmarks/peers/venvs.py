"""One virtual environment per peer, so that no two projects have to agree on versions.

Each peer's requirements stand in a text file of its name beside this module, and all of them
are installed under ``constraints.txt``, which fixes the one release of PyTorch that every peer
runs on.  An environment is built once: a stamp inside it holds the hash of what it was built
from, and a matching stamp means there is nothing to do.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

HERE = Path(__file__).resolve().parent
DEFAULT_ROOT = HERE.parents[1] / ".peers"
CONSTRAINTS = HERE / "constraints.txt"
PEERS = ("sb3", "sb3_maniskill", "sample_factory", "cleanrl_envpool", "torchrl", "rllib")
STAMP = "peer-stamp.txt"
TAIL_LINES = 25


class PeerBuildError(RuntimeError):
    """A peer's virtual environment could not be built."""


def requirements_of(peer: str) -> Path:
    """The peer's requirement file."""
    if peer not in PEERS:
        raise ValueError(f"unknown peer {peer!r}: expected one of {', '.join(PEERS)}")
    return HERE / f"{peer}.txt"


def stamp_of(peer: str) -> str:
    """Hash of everything the peer's environment is built from."""
    parts = [f"python {sys.version_info.major}.{sys.version_info.minor}"]
    parts += [CONSTRAINTS.read_text(), requirements_of(peer).read_text()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def python_of(peer: str, root: Path = DEFAULT_ROOT) -> Path:
    """The interpreter of the peer's environment under ``root``, built first where needed."""
    stamp = stamp_of(peer)
    folder = Path(root).resolve() / peer
    python = folder / "bin" / "python"
    if _is_current(folder, stamp):
        return python
    with _locked(folder.parent / f"{peer}.lock"):
        if not _is_current(folder, stamp):  # another process may have built it meanwhile
            _build(peer, folder, python)
            (folder / STAMP).write_text(stamp)
    return python


def _is_current(folder: Path, stamp: str) -> bool:
    file = folder / STAMP
    return (folder / "bin" / "python").exists() and file.exists() and file.read_text() == stamp


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(peer: str, folder: Path, python: Path) -> None:
    started = perf_counter()
    shutil.rmtree(folder, ignore_errors=True)
    _step(peer, "creating the environment", [sys.executable, "-m", "venv", str(folder)])
    pip = [str(python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    pip += ["--progress-bar", "off", "-c", str(CONSTRAINTS)]
    # PyTorch goes in first and alone, so that no peer's own range can choose another build.
    _step(peer, "installing PyTorch", [*pip, "torch"])
    _step(peer, "installing the peer", [*pip, "-r", str(requirements_of(peer))])
    _say(peer, f"ready in {perf_counter() - started:.0f} s")


def _step(peer: str, title: str, command: Sequence[str]) -> None:
    _say(peer, title)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-TAIL_LINES:])
        raise PeerBuildError(f"peer {peer!r}: {title} failed (exit {done.returncode})\n{tail}")


def _say(peer: str, text: str) -> None:
    print(f"[peers] {peer}: {text}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Build the named peers' environments (all of them by default)."""
    parser = argparse.ArgumentParser(description="Build the peers' virtual environments.")
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"any of: {', '.join(PEERS)}")
    parser.add_argument("--root", type=Path, default=DEFAULT_ROOT, help="where they are kept")
    args = parser.parse_args(argv)
    failed = 0
    for peer in args.peers or PEERS:
        try:
            print(f"{peer}\t{python_of(peer, args.root)}", flush=True)
        except (PeerBuildError, ValueError) as error:
            print(f"[peers] error: {error}", file=sys.stderr, flush=True)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
