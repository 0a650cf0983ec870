"""GPUs as the driver tells of them; the driver is a fake of the few functions that are asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ebrl.runtime.machine import devices


class DriverError(Exception):
    """What NVML raises."""


class Driver:
    """NVML of a machine with the named GPUs. `fails` names the call that the driver refuses."""

    NVMLError: type[Exception] = DriverError

    def __init__(self, *names: str, cuda: int = 13000, fails: str = "") -> None:
        self.names = names
        self.cuda = cuda
        self.fails = fails
        self.open = 0

    def _call(self, name: str) -> None:
        if self.fails == name:
            raise DriverError(f"{name} refused")

    def nvmlInit(self):
        self._call("init")
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):
        return b"580.65.06"

    def nvmlSystemGetCudaDriverVersion(self):
        return self.cuda

    def nvmlDeviceGetCount(self):
        self._call("count")
        return len(self.names)

    def nvmlDeviceGetHandleByIndex(self, index):
        self._call("handle")
        return index

    def nvmlDeviceGetName(self, handle):
        return self.names[handle]

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=80_000_000_000)


def test_equal_gpus_are_counted_together():
    gpus = devices.look(Driver("NVIDIA H100", "NVIDIA H100", "NVIDIA A100"))
    check = devices.gpu(gpus, torch_cuda="13.0")
    assert check.ok
    assert check.detail == (
        "2 x NVIDIA H100 (80 GB), NVIDIA A100 (80 GB), driver 580.65.06, CUDA up to 13.0"
    )


@pytest.mark.parametrize("call", ["init", "count", "handle"])
def test_a_driver_that_refuses_is_an_answer_and_is_left_closed(call: str):
    driver = Driver("NVIDIA H100", fails=call)
    gpus = devices.look(driver)
    assert gpus.devices == ()
    assert gpus.reason == f"{call} refused"
    assert driver.open == 0
    assert "refused" in devices.gpu(gpus, torch_cuda=None).detail


def test_a_driver_without_devices_says_so():
    check = devices.gpu(devices.look(Driver()), torch_cuda=None)
    assert not check.ok
    assert "lists no device" in check.detail


def test_a_torch_built_for_a_newer_cuda_than_the_driver_runs_is_a_gap():
    gpus = devices.look(Driver("NVIDIA A100", cuda=12040))
    assert devices.gpu(gpus, torch_cuda="12.8").ok  # minor versions are compatible
    check = devices.gpu(gpus, torch_cuda="13.0")
    assert not check.ok
    assert "torch is built for CUDA 13.0" in check.detail
    assert "driver" in check.fix


def test_green_contexts_need_cuda_12_4():
    check = devices.green_contexts(devices.look(Driver("NVIDIA A100", cuda=12020)))
    assert not check.ok
    assert "12.2" in check.detail
    assert "550" in check.fix


def test_green_contexts_need_the_driver_bindings(monkeypatch: pytest.MonkeyPatch):
    gpus = devices.look(Driver("NVIDIA A100", cuda=12040))
    monkeypatch.setattr(devices, "version", {"cuda-bindings": "13.0.1"}.get)
    assert devices.green_contexts(gpus).ok
    monkeypatch.setattr(devices, "version", {}.get)
    check = devices.green_contexts(gpus)
    assert not check.ok
    assert "pip install 'cuda-bindings" in check.fix


def test_mps_needs_its_control_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    gpus = devices.look(Driver("NVIDIA A100"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not devices.mps(gpus, running=False).ok
    program = tmp_path / devices.MPS_CONTROL
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert devices.mps(gpus, running=False).detail.endswith("no daemon runs")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps")
    assert devices.mps(gpus, running=True).detail.endswith("a daemon runs, pipes in /run/mps")


def test_sharing_a_gpu_starts_with_having_one():
    nothing = devices.look(Driver())
    for check in (devices.mps(nothing, running=False), devices.green_contexts(nothing)):
        assert not check.ok
        assert "first a GPU" in check.fix
