"""What NVML tells about a device while it is shared: memory, clocks, and why it is slow.

Green contexts do not show in NVML, and MPS books all work on its server, so nothing here is a
stage's time; that comes from events on its stream. What does show is the whole device: throttling
is how a GPU that became slower is told from a stage that did.
"""

from __future__ import annotations

import importlib
from typing import Any

import msgspec

THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal limit (software)",
    0x40: "thermal limit (hardware)",
    0x80: "power brake",
}


class DeviceState(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a device. `clock` is its SM clock over the highest, `throttled` says why."""

    used_bytes: int
    clock: float
    throttled: tuple[str, ...] = ()


def look(ordinal: int, library: Any | None = None) -> DeviceState | None:
    """The state of a device now; None where NVML cannot tell. `library`: None for pynvml."""
    nvml: Any = library or importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(ordinal)
        now = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
        most = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
        reasons = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return DeviceState(
            used_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).used),
            clock=now / most if most else 1.0,
            throttled=tuple(word for bit, word in THROTTLES.items() if reasons & bit),
        )
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()
