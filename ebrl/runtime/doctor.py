"""What this machine has and lacks for planning and running here, with the exact fix for each gap.

Invariant: an examination changes nothing, takes about a second, and imports neither torch, ray nor
a simulator. What may crash (the Vulkan drivers) is asked in a child process meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from ebrl.runtime.machine import devices, host, software, vulkan
from ebrl.runtime.machine.check import Check


def examine() -> tuple[Check, ...]:
    """All checks, in the order in which they are shown."""
    vulkan_probe = vulkan.start_probe()
    gpus = devices.look()
    others = (
        host.python(),
        software.torch(gpu_present=bool(gpus.devices)),
        software.solver(),
        software.simulators(),
        host.cores(),
        host.memory(),
        host.shared_memory(),
        host.wake_ups(),
        host.files(),
        host.disk(),
        devices.gpu(gpus, software.torch_cuda()),
        devices.mps(gpus, running=bool(gpus.devices) and software.running(devices.MPS_CONTROL)),
        devices.green_contexts(gpus),
        software.ray(),
    )
    return (*others, vulkan.check(vulkan.finish_probe(vulkan_probe)))


def fit(checks: Iterable[Check]) -> bool:
    """Is everything there that any run on this machine needs?"""
    return all(each.ok for each in checks if each.required)
