"""Child processes of a run: started clean, watched, and gone when the run is.

Invariants: a worker is a fork of the nursery, or a fresh interpreter where that has refused; it is
the leader of its own session, so a Ctrl-C at the terminal reaches the run alone, which then stops
the workers in order. The run is the reaper of everything below it: what a worker started and left
behind comes to the run and is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import psutil

from ebrl.runtime.boot import OWNER, Boot
from ebrl.runtime.messages import Failed, Inbox
from ebrl.runtime.nursery import Nursery, Request

PR_SET_CHILD_SUBREAPER = 36
LAST_LINES, LAST_BYTES = 12, 1 << 14


class Child:
    """One worker process, its pipe and its log."""

    def __init__(self, boot: Boot, inbox: Inbox, log: Path) -> None:
        self.boot = boot
        self.inbox = inbox
        self.log = log
        self.began = time.monotonic()
        self.pid: int | None = None  # once it has told of its birth
        self.ready = False
        self.connected = True
        self.failure: Failed | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._code: int | None = None
        self._log_from = _size(log)

    @property
    def name(self) -> str:
        return self.boot.name

    def poll(self) -> int | None:
        """Its exit code, minus the signal's number if one ended it; None while it lives."""
        if self._code is None and self._popen is not None:
            self._code = self._popen.poll()
        elif self._code is None and self.pid is not None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # reaped with everything else, at the end
                self._code = 0
            else:
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    @property
    def process(self) -> int | None:
        """Its process id; None while the nursery has not borne it."""
        return self.pid if self._popen is None else self._popen.pid

    @property
    def gone(self) -> bool:
        """It will not write to the slab any more."""
        if self.pid is None and self._popen is None:  # not born, and its pipe has ended
            return not self.connected
        return self.poll() is not None

    @property
    def refused(self) -> bool:
        """The nursery would not bear it, or was killed while it did."""
        return self.gone and self.pid is None and self._popen is None

    def stopped(self) -> bool:
        """SIGSTOP holds it (a debugger does not count)."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="ascii", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0] == "T"
        except (OSError, IndexError):
            return False

    def resident_bytes(self) -> int:
        try:
            with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
                _, resident, shared, *_ = map(int, file.read().split())
        except (OSError, ValueError):
            return 0
        return (resident - shared) * os.sysconf("SC_PAGE_SIZE")

    def last_lines(self) -> str:
        """The end of its log, for a message about its death."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(self._log_from, _size(self.log) - LAST_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-LAST_LINES:])

    def fate(self) -> str:
        """How it ended, in words."""
        code = self.poll()
        if code is None:
            return "did not start" if self.pid is None else "closed its pipe but is still there"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def kill(self) -> None:
        """SIGKILL to the worker and everything in its session's group."""
        pid = self.process
        if pid is None or self.poll() is not None:
            return
        for end in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(pid, signal.SIGKILL)


def become_reaper() -> None:
    """Let orphans below this process come to it instead of to init."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def spawn(boot: Boot, log: Path, nursery: Nursery | None) -> Child:
    """Start a worker: from the nursery, or without one in an interpreter of its own.

    `boot.pipe_fd` is replaced by a new pipe's writing end.
    """
    reading, writing = os.pipe()
    child = Child(boot, Inbox(reading), log)
    asked = nursery is not None and nursery.ask(Request(boot=boot, log=str(log)), writing)
    if not asked:
        child._popen = _interpreter(msgspec.structs.replace(boot, pipe_fd=writing), log)
    os.close(writing)
    return child


def _interpreter(boot: Boot, log: Path) -> subprocess.Popen[bytes]:
    descriptors = (boot.slab_fd, boot.pipe_fd, *boot.memory_fds, *boot.bells.values())
    threads = str(boot.threads)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PYTHONUNBUFFERED": "1",
    }
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ebrl.runtime.worker"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=descriptors,
            start_new_session=True,
            env=environment,
        )
    assert process.stdin is not None
    try:
        process.stdin.write(msgspec.json.encode(boot))
        process.stdin.close()
    except BrokenPipeError:  # it died at once: its pipe's end says so
        pass
    return process


def wait_all(children: Sequence[Child], timeout_s: float) -> list[Child]:
    """Wait until they have ended; returns those that have not."""
    deadline = time.monotonic() + timeout_s
    left = [child for child in children if child.process is not None]
    while left:
        left = [child for child in left if not child.gone]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return left


def reap_orphans(worker: int) -> int:
    """End what a worker that is gone has left behind, of its session or marked by it; how many."""
    mark = f"{OWNER}={worker}".encode()
    found = 0
    for each in psutil.Process().children():
        try:
            with open(f"/proc/{each.pid}/environ", "rb") as file:
                theirs = os.getsid(each.pid) == worker or mark in file.read().split(b"\0")
        except OSError:
            continue
        if theirs and each.pid != worker:
            found += 1
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(each.pid, 0)
    return found


def kill_descendants() -> None:
    """End and reap everything below this process, grandchildren included."""
    descendants = psutil.Process().children(recursive=True)
    for each in descendants:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(descendants, timeout=1.0)
    while True:  # orphans that came to us
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
