"""CUDA MPS: a cap on the share of SMs that a client process may use, set when it starts.

One control daemon a device, with private pipe and log folders. The percentage is read when a
client creates its context, so another one means another process: `apply` returns who has to be
started anew. The control program's exit code 0 is not success; its text is read.

Invariants: a client is given the pipe folder and its percentage, never CUDA_VISIBLE_DEVICES (the
server has it); the daemon that was started here is the one that is quit here.
"""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ebrl.errors import RunError
from ebrl.planner.hardware import mps_percent
from ebrl.runtime.quota.protocol import Capabilities, Layout, Quota

PROGRAM = "nvidia-cuda-mps-control"
MOST_CLIENTS = 48
TIMEOUT_S = 20.0
REFUSALS = ("error", "cannot", "failed", "not found", "invalid", "unable")
Control = Callable[[Sequence[str], str, Mapping[str, str]], tuple[int, str]]
"""Runs a program with this input and environment: its exit code, and all that it printed."""


def run_control(
    arguments: Sequence[str], text: str, environment: Mapping[str, str]
) -> tuple[int, str]:
    """The real control program."""
    try:
        done = subprocess.run(
            list(arguments),
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, **environment},
        )
    except FileNotFoundError as error:
        raise RunError(
            "mps-missing",
            f"{PROGRAM} is not on this machine",
            hint="it comes with the NVIDIA driver; without it stages share a GPU by taking turns",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise RunError("mps-control", f"{PROGRAM} did not answer in {TIMEOUT_S:.0f} s") from error
    return done.returncode, f"{done.stdout}\n{done.stderr}"


class Mps:
    """Clients of one device's MPS daemon, started with the first layout and quit at the end."""

    def __init__(
        self, device: str, sms: int, folder: Path, *, control: Control = run_control
    ) -> None:
        self._device, self._sms, self._folder, self._control = device, sms, folder, control
        self._now: Layout | None = None
        self._started = False

    def capabilities(self) -> Capabilities:
        return Capabilities(
            mechanism="MPS",
            least=max(1, math.ceil(self._sms / 100)),
            step=1,
            most=self._sms,
            hint="a cap, not a reservation: clients below their caps leave SMs to the others",
        )

    def realise(self, request: Sequence[Quota]) -> Layout:
        """Whole percents, rounded up; caps may add up to more than the device, clients may not."""
        if len(request) > MOST_CLIENTS:
            raise RunError("quota-too-large", f"MPS has {MOST_CLIENTS} clients, not {len(request)}")
        granted = []
        for each in request:
            if each.sms > self._sms:
                raise RunError(
                    "quota-too-large",
                    f"{each.worker} asks for {each.sms} SMs; the device has {self._sms}",
                )
            percent = mps_percent(each.sms, self._sms)
            granted.append(
                Quota(worker=each.worker, sms=percent * self._sms // 100, cores=each.cores)
            )
        return Layout(granted=tuple(granted))

    def apply(self, layout: Layout) -> frozenset[str]:
        if not self._started:
            self._start()
        before, self._now = self._now, layout
        if before is None:
            return frozenset()
        had = {each.worker: each.sms for each in before.granted}
        return frozenset(q.worker for q in layout.granted if had.get(q.worker, q.sms) != q.sms)

    def stream(self, worker: str) -> int:
        del worker
        return 0

    def client_environment(self, worker: str) -> Mapping[str, str]:
        if self._now is None:
            raise RunError("quota-not-applied", f"{worker} has no percentage: nothing was applied")
        # The least whole percent that gives what was granted.
        percent = mps_percent(self._now.of(worker).sms, self._sms)
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self._folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self._folder / "log"),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent),
        }

    def verify(self) -> tuple[str, ...]:
        """Does the daemon answer?"""
        if not self._started:
            return ()
        try:
            self._tell("get_server_list")
        except RunError as error:
            return (str(error),)
        return ()

    def close(self) -> None:
        if self._started:
            self._started = False
            self._tell("quit -t 5")

    def _environment(self) -> dict[str, str]:
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self._folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self._folder / "log"),
            "CUDA_VISIBLE_DEVICES": self._device,
        }

    def _start(self) -> None:
        for name in ("pipe", "log"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        self._read([PROGRAM, "-d"], "", self._environment())
        self._started = True

    def _tell(self, command: str) -> str:
        return self._read([PROGRAM], command + "\n", self._environment())

    def _read(self, arguments: Sequence[str], text: str, environment: Mapping[str, str]) -> str:
        code, told = self._control(arguments, text, environment)
        if code != 0 or any(word in told.lower() for word in REFUSALS):
            raise RunError(
                "mps-control",
                f"{PROGRAM} says: {told.strip() or f'exit code {code}'}",
                where=str(self._folder / "log"),
                hint="another daemon may hold the device; its log tells",
            )
        return told
