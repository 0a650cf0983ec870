"""Where workers come from: a process that has everything imported, and forks one when asked.

A fresh interpreter needs seconds until torch and the user's graph are there; a fork of one that has
them needs milliseconds, so a worker that died is back at once. Memory that nobody writes to is
there once for all.

Invariants: this process has one thread and no device open, or it refuses (what is forked while
another thread holds a lock, or after CUDA is up, is broken); torch is imported with one thread and
no pool, which a worker makes for itself after its affinity is set. Where a simulator's import does
such a thing, this process begins anew and leaves simulators to their workers. A worker is forked
twice, so it is the run's child, not ours. Stages are loaded once: a graph file that is edited while
the run goes on changes nothing.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec
import setproctitle

from ebrl.planner.plan import Program
from ebrl.runtime.boot import Boot, load_stage

PR_SET_PDEATHSIG = 1
LIMIT = 1 << 22  # bytes of a request
COMMAND = (sys.executable, "-m", "ebrl.runtime.nursery")
PLAIN = "plain"  # without the simulators' imports


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Start this worker, its output going to `log`; the end of its pipe comes with it."""

    boot: Boot
    log: str


class Nursery:
    """The run's side."""

    def __init__(self, descriptors: tuple[int, ...], log: Path) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, option, LIMIT)
        one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*COMMAND, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(), *descriptors),
                start_new_session=True,
                env={**os.environ, **one, "PYTHONUNBUFFERED": "1"},
            )
        theirs.close()
        self._socket = ours

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: Request, pipe_fd: int) -> bool:
        """Ask for a worker that writes to `pipe_fd`; False: the nursery is not there any more.

        It tells of its birth itself. The pipe's end without a word: the nursery has refused.
        """
        try:
            socket.send_fds(self._socket, [msgspec.json.encode(request)], [pipe_fd])
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """No worker will be asked for any more."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self._socket.close()


def main() -> None:
    """Serve until the run closes its end."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setproctitle.setproctitle("ebrl nursery")
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    plain = sys.argv[2:] == [PLAIN]
    stages: dict[str, Any] = {}
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, LIMIT, 1)
        if not data:
            return
        request = msgspec.json.decode(data, type=Request)
        _prepare(request.boot, stages, plain=plain)
        trouble = _trouble()
        if trouble is None:
            _fork(request, descriptors[0], stages, line)
        else:
            print(f"not forking: {trouble}", file=sys.stderr, flush=True)
        for fd in descriptors:
            os.close(fd)
        if trouble is not None and not plain:
            line.set_inheritable(True)
            os.execv(sys.executable, [*COMMAND, sys.argv[1], PLAIN])


def _prepare(boot: Boot, stages: dict[str, Any], *, plain: bool) -> None:
    """Import what this worker needs, so that the next one finds it."""
    try:
        from ebrl.runtime import worker  # noqa: F401

        if boot.emulation is not None:
            from ebrl.runtime import generate, simulate, train

            return
        program = msgspec.json.decode(boot.program, type=Program)
        for name in (each.name for each in program.stages):
            if name not in stages:
                stages[name] = load_stage(boot.graph, boot.graph_sha256, name)
        if boot.role == "simulate":
            from ebrl.runtime import simulate  # noqa: F401

            for module in () if plain else stages[boot.stage].imports:
                __import__(module)
        else:
            import torch  # noqa: F401

            from ebrl.runtime import generate, train  # noqa: F401
    except BaseException:  # the worker will meet it too, and say so where it is heard
        traceback.print_exc()


def _trouble() -> str | None:
    """Why this process must not be forked."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"an import has started {threads - 1} threads"
    for fd in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if path.startswith(("/dev/nvidia", "/dev/dri")):
            return f"an import has opened {path}"
    return None


def _fork(request: Request, pipe_fd: int, stages: dict[str, Any], line: socket.socket) -> None:
    gc.collect()
    gc.freeze()  # a collection in the worker need not touch, and so copy, what is here
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return
    try:
        if os.fork():
            os._exit(0)
        line.close()
        os.setsid()
        log = os.open(request.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for fd in (1, 2):
            os.dup2(log, fd)
        os.close(log)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from ebrl.runtime import worker

        boot = msgspec.structs.replace(request.boot, pipe_fd=pipe_fd)
        worker.live(boot, stages)
    except SystemExit as ended:
        os._exit(ended.code if isinstance(ended.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
