"""The measuring processes of one profiling: started together, ready together, asked at will.

Invariant: nobody is asked before everybody is built, so a slice that is meant to be measured beside
others is. A process that fails is told in its own words; none outlives the profiling.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

import msgspec

from ebrl.errors import PlanError
from ebrl.runtime.profiling.asking import Ask, Ready, Request, Slice
from ebrl.runtime.quota.cores import pin

BUILT_WITHIN_S = 300.0
ANSWERED_WITHIN_S = 300.0
TAIL = 12  # lines of what a failed process printed


class Bench:
    """One measuring process."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.ready = Ready()
        self.asked: Ask | None = None
        self._answers = b""
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if request.device == "cpu":
            environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ebrl.runtime.profiling.measure"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.fd = self._stdout.fileno()
        os.set_blocking(self.fd, False)
        self._send(request)

    def ask(self, ask: Ask) -> None:
        assert self.asked is None, "one question at a time"
        self.asked = ask
        self._send(ask)

    def pin(self, cores: Iterable[int]) -> None:
        """Run on these cores alone from now on."""
        pin(self._process.pid, cores)

    def hear(self) -> bytes | None:
        """A whole answer's line, if one has come. PlanError when the process has died."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return None
        if not data:
            raise self._died()
        self._answers += data
        line, newline, rest = self._answers.partition(b"\n")
        if not newline:
            return None
        self._answers = rest
        return line

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._stdin, self._stdout, self._printed):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def late(self, what: str, limit_s: float) -> PlanError:
        return PlanError(
            "measuring-timeout",
            f"`{self.request.stage}` was not {what} within {limit_s:.0f} s",
            where=self.request.graph,
            hint="give a profile with --profile FILE instead",
        )

    def _send(self, message: msgspec.Struct) -> None:
        try:
            self._stdin.write(msgspec.json.encode(message) + b"\n")
            self._stdin.flush()
        except BrokenPipeError:
            self._process.wait()
            raise self._died() from None

    def _died(self) -> PlanError:
        self._process.wait()
        self._printed.seek(0)
        tail = b"\n".join(self._printed.read().splitlines()[-TAIL:]).decode(errors="replace")
        return PlanError(
            "measuring-failed",
            f"`{self.request.stage}` cannot be measured; it ended with:\n{tail}",
            where=self.request.graph,
            hint="`ebrl doctor` says what this machine lacks",
        )


class Benches:
    """All of them: `with Benches(requests) as benches: benches.run(...)`."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._selector = selectors.DefaultSelector()
        self.all: list[Bench] = []
        try:
            for request in requests:
                bench = Bench(request)
                self.all.append(bench)
                self._selector.register(bench.fd, selectors.EVENT_READ, bench)
            self._build()
        except BaseException:
            self.close()
            raise

    def run(
        self,
        questions: Callable[[Bench], Ask | None],
        heard: Callable[[Bench, Ask, Slice], None],
    ) -> None:
        """Ask every bench again and again, all at the same time, until each is given None.

        Slices that end when others have already stopped were not made beside them; keep the
        questions short. Raises PlanError when a process fails.
        """
        busy: set[Bench] = set()

        def next_of(bench: Bench) -> None:
            ask = questions(bench)
            if ask is None:
                busy.discard(bench)
            else:
                busy.add(bench)
                bench.ask(ask)

        for bench in self.all:
            next_of(bench)
        since = {bench: time.monotonic() for bench in self.all}
        while busy:
            for bench, line in self._lines(1.0):
                told = msgspec.json.decode(line, type=Slice)
                if told.failed:
                    raise PlanError.of(told.failed)
                ask, bench.asked = bench.asked, None
                assert ask is not None
                heard(bench, ask, told)
                since[bench] = time.monotonic()
                next_of(bench)
            for bench in busy:
                if time.monotonic() - since[bench] > ANSWERED_WITHIN_S:
                    raise bench.late("answering", ANSWERED_WITHIN_S)

    def close(self) -> None:
        self._selector.close()
        for bench in self.all:
            bench.close()

    def __enter__(self) -> Benches:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _build(self) -> None:
        waiting = set(self.all)
        deadline = time.monotonic() + BUILT_WITHIN_S
        while waiting:
            for bench, line in self._lines(1.0):
                bench.ready = msgspec.json.decode(line, type=Ready)
                if bench.ready.failed:
                    raise PlanError.of(bench.ready.failed)
                waiting.discard(bench)
            if time.monotonic() > deadline:
                raise next(iter(waiting)).late("ready", BUILT_WITHIN_S)

    def _lines(self, timeout_s: float) -> list[tuple[Bench, bytes]]:
        found = []
        for key, _ in self._selector.select(timeout_s):
            bench: Bench = key.data
            line = bench.hear()
            if line is not None:
                found.append((bench, line))
        return found
