"""NVIDIA's management library, asked once: which GPUs may this process use, and what are they?

Invariant: a device that the catalogue knows has its figures; only memory is the driver's own.
Any other device gets figures derived from what the driver tells, and its source says so.
"""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from ebrl.planner import devices as catalogue
from ebrl.planner.hardware import DeviceKind

# Compute capability → lanes and dense 16-bit tensor FLOP of a multiprocessor and clock, then least
# and step of SM quotas; from the architecture white papers, for devices outside the catalogue.
ARCHITECTURES: dict[tuple[int, int], tuple[int, int, int, int]] = {
    (7, 0): (64, 1024, 2, 2),
    (7, 5): (64, 1024, 2, 2),
    (8, 0): (64, 2048, 4, 2),
    (8, 6): (128, 512, 4, 2),
    (8, 9): (128, 512, 4, 2),
    (9, 0): (128, 4096, 8, 8),
    (10, 0): (128, 8192, 8, 8),
    (12, 0): (128, 512, 8, 8),
}
PCIE_BYTES_PER_S = 32e9  # assumed for a device outside the catalogue: PCIe 4.0 x16


class UnavailableError(Exception):
    """No NVIDIA driver, or no binding to it."""


def devices() -> tuple[DeviceKind, ...]:
    """The GPUs that this process may use, in the driver's order. Raises UnavailableError."""
    try:
        import pynvml
    except ImportError as error:
        raise UnavailableError("nvidia-ml-py is not installed") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise UnavailableError(str(error)) from error
    try:
        handles = [
            pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        ]
        uuids = [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        chosen = visible(os.environ.get("CUDA_VISIBLE_DEVICES"), uuids)
        return tuple(_kind(pynvml, handles[index]) for index in chosen)
    except pynvml.NVMLError as error:
        raise UnavailableError(str(error)) from error
    finally:
        pynvml.nvmlShutdown()


def visible(setting: str | None, uuids: list[str]) -> list[int]:
    """Indices that CUDA_VISIBLE_DEVICES leaves: numbers or (starts of) UUIDs, up to a bad one."""
    if setting is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for word in (each.strip() for each in setting.split(",")):
        if word.isdecimal() and int(word) < len(uuids):
            chosen.append(int(word))
            continue
        matches = [index for index, uuid in enumerate(uuids) if word and uuid.startswith(word)]
        if len(matches) != 1:
            break  # CUDA too ignores everything after an entry that it does not know
        chosen.append(matches[0])
    return chosen


def catalogue_name(product: str) -> str | None:
    """The catalogue's name for a product name of the driver, such as "NVIDIA A100-SXM4-80GB"."""
    for entry in catalogue.entries():
        if product in entry.driver_names:
            return entry.name
    return None  # "Ti", "Laptop" and the like are other devices under a similar name


def _kind(nvml: Any, handle: Any) -> DeviceKind:
    product = _text(nvml.nvmlDeviceGetName(handle))
    memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    known = catalogue_name(product)
    if known is not None:
        return msgspec.structs.replace(catalogue.find(known), memory_bytes=memory)
    capability = tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle))
    newest = max(each for each in ARCHITECTURES if each <= max(capability, (7, 0)))
    lanes, tensor, minimum, step = ARCHITECTURES[newest]
    sms = max(1, int(nvml.nvmlDeviceGetNumGpuCores(handle)) // lanes)
    clock = 1e6 * nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
    memory_clock = 1e6 * nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)
    bus_bytes = nvml.nvmlDeviceGetMemoryBusWidth(handle) / 8
    return DeviceKind(
        name=re.sub(r"[^a-z0-9]+", "-", product.lower()).strip("-"),
        sms=sms,
        sm_min=minimum,
        sm_step=step,
        memory_bytes=memory,
        memory_bytes_per_s=2 * memory_clock * bus_bytes,
        bf16_flops=sms * tensor * clock,
        fp32_flops=sms * lanes * 2 * clock,
        link_bytes_per_s=PCIE_BYTES_PER_S,
        source="derived from clocks, lanes and bus width that the driver tells; link assumed",
        half="bf16" if newest >= (8, 0) else "fp16",
        partition="green context" if newest >= (8, 0) else "mps",
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
