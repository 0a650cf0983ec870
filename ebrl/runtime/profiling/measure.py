"""A measuring process: `python -m ebrl.runtime.profiling.measure`, one stage, asked by its parent.

Invariant: what is timed is what a run executes (the same `Simulate`, `Generate`, `Train`), on the
stopwatch that fits its hardware; what the stage itself prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ebrl.errors import EbrlError, RunError
from ebrl.planner.plan import Program
from ebrl.runtime.profiling.asking import Ask, Ready, Request, Slice
from ebrl.runtime.profiling.bodies import Body, build, resident_bytes
from ebrl.runtime.profiling.stopwatch import CpuSeconds, DeviceSeconds, Stopwatch, UnqueuedWall
from ebrl.runtime.quota.driver import CudaDriver, Driver
from ebrl.runtime.quota.green_context import GreenContexts
from ebrl.runtime.quota.protocol import Quota

TIMINGS = 5  # of one slice, at least, where a batch is short
WARM = 2  # firings at a batch size before it is first timed
STAGE = "stage"  # the one worker that this process's quota is for


class Bench:
    """One built stage and its stopwatches. `driver` None: of the real device, where it has one."""

    def __init__(self, request: Request, body: Body, driver: Driver | None = None) -> None:
        self._body = body
        self._on_device = request.device.startswith("cuda")
        self._driver = driver
        self._contexts: GreenContexts | None = None
        self._device_watch: DeviceSeconds | None = None
        self._warm: set[tuple[int, int, int]] = set()
        self._threads = 0
        if self._on_device:
            ordinal = int(request.device.partition(":")[2] or 0)
            self._driver = driver or CudaDriver()
            self._contexts = GreenContexts(self._driver, ordinal)
            self._device_watch = DeviceSeconds(self._driver, self._stream)
        self._sms = 0

    def answer(self, ask: Ask) -> Slice:
        """Fire as asked."""
        if ask.threads != self._threads:
            self._body.threads(ask.threads)
            self._threads = ask.threads
        granted = self._grant(ask.sms)
        watch = self._watch(ask.threads)
        with self._on_stream():
            if (place := (ask.batch, ask.threads, ask.sms)) not in self._warm:
                self._warm.add(place)
                for _ in range(WARM):
                    self._body.fire(ask.batch, watch)
            begin = time.monotonic()
            end = begin + ask.seconds
            part = ask.seconds / TIMINGS
            timings: list[float] = []
            items = 0
            while not timings or time.monotonic() < end:
                seconds, done, fired = 0.0, 0, 0
                until = time.monotonic() + part
                while not done or time.monotonic() < until:
                    each, count = self._body.fire(ask.batch, watch)
                    seconds, done, fired = seconds + each, done + count, fired + 1
                timings.append(seconds / done * ask.batch)
                items += done
        return Slice(
            seconds=tuple(timings),
            wall_s=time.monotonic() - begin,
            items=items,
            bytes=resident_bytes(),
            device_bytes=_device_bytes() if self._on_device else 0,
            granted_sms=granted,
        )

    def close(self) -> None:
        if self._device_watch is not None:
            self._device_watch.close()
        if self._contexts is not None:
            self._contexts.close()
        self._body.close()

    def _watch(self, threads: int) -> Stopwatch:
        if self._device_watch is not None:
            return self._device_watch
        return CpuSeconds() if threads == 1 else UnqueuedWall()

    def _grant(self, sms: int) -> int:
        """SMs that the device really gives for this quota."""
        if self._contexts is None:
            return 0
        layout = self._contexts.realise((Quota(worker=STAGE, sms=sms),))
        self._contexts.apply(layout)
        return layout.of(STAGE).sms

    def _stream(self) -> int:
        return 0 if self._contexts is None else self._contexts.stream(STAGE)

    @contextlib.contextmanager
    def _on_stream(self) -> Iterator[None]:
        """The stage's kernels go to the stream of its quota."""
        torch = sys.modules.get("torch")
        if self._contexts is None or torch is None or not torch.cuda.is_available():
            yield
            return
        with torch.cuda.stream(torch.cuda.ExternalStream(self._stream())):
            yield


def weights_bytes(program: Program, graph: Path, graph_sha256: str | None) -> int:
    """Bytes of the published weights, asked in a process of its own (this one imports no torch)."""
    policy = program.of_kind("generate")[0].name
    request = Request(
        role="generate",
        stage=policy,
        policy_stage=policy,
        program=program,
        graph=str(graph),
        graph_sha256=graph_sha256,
        environments=1,
        patience_s=1.0,
    )
    done = subprocess.run(
        [sys.executable, "-m", "ebrl.runtime.profiling.measure"],
        input=msgspec.json.encode(request) + b"\n",
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise RunError(
            "policy-unbuildable",
            "the policy cannot be built; it ended with:\n"
            + "\n".join(done.stderr.decode(errors="replace").splitlines()[-12:]),
            where=str(graph),
        )
    ready = msgspec.json.decode(done.stdout, type=Ready)
    if ready.failed:
        raise RunError.of(ready.failed)
    return ready.weights_bytes


def serve(questions: BinaryIO, answers: int) -> None:
    """Build what the first line asks for, then answer each line that follows."""
    request = msgspec.json.decode(questions.readline(), type=Request)
    try:
        body = build(request)
        bench = Bench(request, body)
    except EbrlError as error:
        _tell(answers, Ready(failed=error.diagnostics))
        return
    _tell(
        answers,
        Ready(
            weights_bytes=body.weights_bytes,
            environments=body.environments,
            bytes=body.memory,
        ),
    )
    for line in iter(questions.readline, b""):
        try:
            told = bench.answer(msgspec.json.decode(line, type=Ask))
        except EbrlError as error:
            told = Slice(failed=error.diagnostics)
        _tell(answers, told)
    bench.close()


def _tell(fd: int, answer: msgspec.Struct) -> None:
    data = memoryview(msgspec.json.encode(answer) + b"\n")
    while data:
        data = data[os.write(fd, data) :]


def _device_bytes() -> int:
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return 0
    return int(torch.cuda.max_memory_reserved())


def main() -> None:
    """Serve the parent until it closes the pipe."""
    answers = os.dup(1)
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
