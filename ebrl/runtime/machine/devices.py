"""NVIDIA GPUs through NVML, and the two ways to share one: MPS and green contexts.

The driver is spoken to through the functions of `pynvml` that `Nvml` names, so a fake of those few
stands in for it where there is no GPU.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ebrl.runtime.machine.check import Check
from ebrl.runtime.machine.software import version

GREEN_CONTEXTS_CUDA = 12040  # CUDA 12.4, as NVML writes it
NO_GPU = "only for plans with GPUs: first a GPU and its driver, as the line `gpu` says"
MPS_CONTROL = "nvidia-cuda-mps-control"
MPS_PIPES = "/tmp/nvidia-mps"  # CUDA's own default


class Nvml(Protocol):
    """The part of `pynvml` that is used here."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> Any: ...
    def nvmlShutdown(self) -> Any: ...
    def nvmlSystemGetDriverVersion(self) -> Any: ...
    def nvmlSystemGetCudaDriverVersion(self) -> Any: ...
    def nvmlDeviceGetCount(self) -> Any: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...
    def nvmlDeviceGetName(self, handle: Any) -> Any: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...


class Gpus(msgspec.Struct, frozen=True, kw_only=True):
    """What NVML says; no devices and a reason where it says nothing."""

    devices: tuple[str, ...] = ()
    driver: str = ""
    cuda: int = 0  # newest CUDA the driver runs: 13010 is 13.1
    reason: str = ""


def look(nvml: Nvml | None = None) -> Gpus:
    """Ask the driver. Every failure is an answer: "no library", "no permission", ..."""
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return Gpus(reason="nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Gpus(reason=str(error))
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        return Gpus(
            devices=tuple(
                f"{_text(nvml.nvmlDeviceGetName(handle))} "
                f"({nvml.nvmlDeviceGetMemoryInfo(handle).total / 1e9:.0f} GB)"
                for handle in handles
            ),
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
            cuda=nvml.nvmlSystemGetCudaDriverVersion(),
            reason="" if handles else "the driver lists no device",
        )
    except nvml.NVMLError as error:
        return Gpus(reason=str(error))
    finally:
        nvml.nvmlShutdown()


def gpu(gpus: Gpus, torch_cuda: str | None) -> Check:
    """A GPU, with a driver new enough for the installed torch."""
    if not gpus.devices:
        return Check(
            name="gpu",
            ok=False,
            detail=f"no NVIDIA GPU ({gpus.reason}); stages run on cores",
            fix="nothing for plans on cores; for plans with GPUs, a machine that has one, with "
            "NVIDIA's driver (containers: --gpus all)",
        )
    kinds = {name: gpus.devices.count(name) for name in gpus.devices}
    named = ", ".join(f"{count} x {name}" if count > 1 else name for name, count in kinds.items())
    detail = f"{named}, driver {gpus.driver}, CUDA up to {_cuda(gpus.cuda)}"
    if torch_cuda is not None and int(torch_cuda.split(".")[0]) > gpus.cuda // 1000:
        return Check(
            name="gpu",
            ok=False,
            detail=f"{detail}; torch is built for CUDA {torch_cuda}",
            fix="a newer NVIDIA driver, or a torch built for the CUDA version that this one runs",
        )
    return Check(name="gpu", ok=True, detail=detail)


def mps(gpus: Gpus, *, running: bool) -> Check:
    """Shares a GPU between processes. The runtime starts its own daemon for each run."""
    if not gpus.devices:
        return Check(name="mps", ok=False, detail="no NVIDIA GPU to share", fix=NO_GPU)
    if shutil.which(MPS_CONTROL) is None:
        return Check(
            name="mps",
            ok=False,
            detail=f"{MPS_CONTROL} is not on the PATH",
            fix="install the NVIDIA driver's compute utilities (Debian, Ubuntu: "
            "nvidia-cuda-mps, or nvidia-compute-utils of the driver's branch)",
        )
    pipes = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", MPS_PIPES))
    state = f"a daemon runs, pipes in {pipes}" if running else "no daemon runs"
    return Check(name="mps", ok=True, detail=f"{MPS_CONTROL} found; {state}")


def green_contexts(gpus: Gpus) -> Check:
    """Disjoint sets of SMs inside one process: driver 12.4 and the driver bindings for Python."""
    if not gpus.devices:
        return Check(name="green contexts", ok=False, detail="no NVIDIA GPU to split", fix=NO_GPU)
    bindings = version("cuda-bindings")
    if gpus.cuda < GREEN_CONTEXTS_CUDA:
        return Check(
            name="green contexts",
            ok=False,
            detail=f"the driver runs CUDA {_cuda(gpus.cuda)}; they came with 12.4",
            fix="an NVIDIA driver of branch 550 or newer",
        )
    if bindings is None:
        return Check(
            name="green contexts",
            ok=False,
            detail=f"the driver can (CUDA {_cuda(gpus.cuda)}), but cuda-bindings is not installed",
            fix=f"{sys.executable} -m pip install 'cuda-bindings>=12.8'",
        )
    detail = f"driver CUDA {_cuda(gpus.cuda)}, cuda-bindings {bindings}"
    return Check(name="green contexts", ok=True, detail=detail)


def _text(value: str | bytes) -> str:
    """Older releases of pynvml answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
