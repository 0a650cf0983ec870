"""Child processes of a run: started clean, watched, and gone when the run is.

Invariants: a worker is a fresh interpreter (never a fork of a process that has imported torch), the
leader of its own session, so a Ctrl-C at the terminal reaches the run alone, which then stops the
workers in order. The run is the reaper of everything below it: what a worker started and left
behind comes to the run and is killed with the rest.
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

from ebrl.runtime.boot import Boot
from ebrl.runtime.messages import Inbox

PR_SET_CHILD_SUBREAPER = 36
LAST_LINES = 12


class Child:
    """One worker process, its pipe and its log."""

    def __init__(
        self, boot: Boot, inbox: Inbox, process: subprocess.Popen[bytes], log: Path
    ) -> None:
        self.boot = boot
        self.inbox = inbox
        self.process = process
        self.log = log
        self.ready = False
        self.connected = True

    @property
    def name(self) -> str:
        return self.boot.name

    def last_lines(self) -> str:
        """The end of its log, for a message about its death."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-LAST_LINES:])

    def fate(self) -> str:
        """How it ended, in words."""
        code = self.process.poll()
        if code is None:
            return "closed its pipe but is still there"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def kill(self) -> None:
        """SIGKILL to the worker and everything in its session's group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


def become_reaper() -> None:
    """Let orphans below this process come to it instead of to init."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def spawn(boot: Boot, log: Path) -> Child:
    """Start a worker. `boot.pipe_fd` is replaced by a new pipe's writing end."""
    reading, writing = os.pipe()
    boot = msgspec.structs.replace(boot, pipe_fd=writing)
    descriptors = (boot.slab_fd, writing, *boot.bells.values())
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
    os.close(writing)
    assert process.stdin is not None
    try:
        process.stdin.write(msgspec.json.encode(boot))
        process.stdin.close()
    except BrokenPipeError:  # it died at once: its pipe's end says so
        pass
    return Child(boot, Inbox(reading), process, log)


def wait_all(children: Sequence[Child], timeout_s: float) -> list[Child]:
    """Wait until they have ended; returns those that have not."""
    deadline = time.monotonic() + timeout_s
    left = list(children)
    while left:
        left = [child for child in left if child.process.poll() is None]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return left


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
