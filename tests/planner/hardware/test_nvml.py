"""GPUs through NVML, tested at the driver's boundary with a module that answers like pynvml."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest

from ebrl.planner import detect, devices, nvml


@dataclass(frozen=True)
class Card:
    name: str | bytes
    uuid: str
    memory: int = 80 * 1024**3
    capability: tuple[int, int] = (8, 9)
    lanes: int = 6144
    sm_mhz: int = 2000
    memory_mhz: int = 8000
    bus_bits: int = 256


class FakeError(Exception):
    pass


def driver(monkeypatch: pytest.MonkeyPatch, *cards: Card, broken: str = "") -> list[str]:
    """Puts a pynvml with these cards in place; returns the calls made, for order and closing."""
    calls: list[str] = []
    module = types.ModuleType("pynvml")

    def answer(name: str, value: Any) -> None:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            if broken == name:
                raise FakeError(f"{name} failed")
            return value(*arguments) if callable(value) else value

        setattr(module, name, call)

    module.NVMLError = FakeError  # type: ignore[attr-defined]
    module.NVML_CLOCK_SM, module.NVML_CLOCK_MEM = 1, 2  # type: ignore[attr-defined]
    answer("nvmlInit", None)
    answer("nvmlShutdown", None)
    answer("nvmlDeviceGetCount", len(cards))
    answer("nvmlDeviceGetHandleByIndex", lambda index: cards[index])
    answer("nvmlDeviceGetUUID", lambda card: card.uuid)
    answer("nvmlDeviceGetName", lambda card: card.name)
    answer("nvmlDeviceGetMemoryInfo", lambda card: types.SimpleNamespace(total=card.memory))
    answer("nvmlDeviceGetCudaComputeCapability", lambda card: card.capability)
    answer("nvmlDeviceGetNumGpuCores", lambda card: card.lanes)
    answer(
        "nvmlDeviceGetMaxClockInfo",
        lambda card, which: card.sm_mhz if which == 1 else card.memory_mhz,
    )
    answer("nvmlDeviceGetMemoryBusWidth", lambda card: card.bus_bits)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return calls


H100 = "NVIDIA H100 80GB HBM3"


def test_known_devices_have_the_catalogues_figures_and_the_drivers_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = driver(monkeypatch, Card(H100, "GPU-a", memory=85520809984), Card(H100, "GPU-b"))
    found = nvml.devices()
    assert [kind.name for kind in found] == ["h100", "h100"]
    assert found[0].memory_bytes == 85520809984
    assert found[0].bf16_flops == devices.find("h100").bf16_flops
    assert calls[0] == "nvmlInit"
    assert calls[-1] == "nvmlShutdown"


def test_old_bindings_answer_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    driver(monkeypatch, Card(b"Tesla T4", "GPU-a"))
    assert nvml.devices()[0].name == "t4"


def test_a_name_that_only_resembles_is_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    driver(monkeypatch, Card("NVIDIA GeForce RTX 4090 Laptop GPU", "GPU-a"))
    (kind,) = nvml.devices()
    assert kind.name == "nvidia-geforce-rtx-4090-laptop-gpu"
    assert "derived" in kind.source


def test_an_unknown_device_gets_figures_from_clocks_lanes_and_bus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver(monkeypatch, Card("NVIDIA Something", "GPU-a"))
    (kind,) = nvml.devices()
    assert kind.sms == 48  # 6144 lanes, 128 a multiprocessor
    assert kind.fp32_flops == 6144 * 2 * 2e9
    assert kind.bf16_flops == 48 * 512 * 2e9
    assert kind.memory_bytes_per_s == 2 * 8e9 * 32
    assert (kind.sm_min, kind.sm_step) == (4, 2)


def test_devices_newer_than_this_program_are_taken_for_the_newest_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver(monkeypatch, Card("NVIDIA Next", "GPU-a", capability=(13, 0)))
    assert nvml.devices()[0].sm_step == 8


def test_only_visible_devices_count(monkeypatch: pytest.MonkeyPatch) -> None:
    driver(monkeypatch, Card(H100, "GPU-aa"), Card("NVIDIA L4", "GPU-bb"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [kind.name for kind in nvml.devices()] == ["l4"]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        ("0,7,1", [0]),
        ("-1", []),
        ("GPU-b", [1]),
        ("GPU-", []),
        (" 1 , GPU-c", [1, 2]),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(
    setting: str | None, expected: list[int]
) -> None:
    assert nvml.visible(setting, ["GPU-a", "GPU-b", "GPU-c"]) == expected


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetName"])
def test_a_driver_that_fails_means_no_devices(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    driver(monkeypatch, Card(H100, "GPU-a"), broken=broken)
    with pytest.raises(nvml.UnavailableError):
        nvml.devices()
    assert detect.local().nodes[0].devices == 0


def test_without_the_binding_there_are_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert detect.local().nodes[0].device is None


def test_the_local_node_has_its_most_numerous_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    driver(monkeypatch, Card("NVIDIA L4", "GPU-a"), Card(H100, "GPU-b"), Card(H100, "GPU-c"))
    node = detect.local().nodes[0]
    assert node.device is not None
    assert (node.device.name, node.devices) == ("h100", 2)
