"""The Vulkan devices of this machine, asked through the loader, and whether SAPIEN can use one.

Invariant: the loader and its drivers are only ever loaded in a child process (`vulkan_loader.py`,
run as a program), so a broken driver costs an answer, never the process that asked. The features
asked for are those that SAPIEN's renderer requires of a device: the software driver of Mesa 22.3
(Debian 12) lacks descriptorBindingPartiallyBound, that of Mesa 25.0 has them all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from ebrl.runtime.machine.check import Check

TIME_LIMIT_S = 20.0
LOADER_PROGRAM = Path(__file__).with_name("vulkan_loader.py")
FIX = (
    "install a Vulkan driver. Software rendering on Debian or Ubuntu, in a checkout: "
    "sudo .venv/bin/python scripts/setup_maniskill.py; by hand: packages mesa-vulkan-drivers and "
    "libvulkan1 (on Debian 12 from bookworm-backports). With an NVIDIA GPU: the driver's graphics "
    "libraries (in a container, NVIDIA_DRIVER_CAPABILITIES=all)"
)


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A Vulkan device; `lacks` names what SAPIEN requires of it and it does not have."""

    name: str
    type: str
    api: str
    driver: str
    lacks: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the loader said: its devices, or why there are none."""

    devices: tuple[Device, ...] = ()
    error: str = ""


def start_probe() -> subprocess.Popen[bytes]:
    """Ask in a child process; `finish_probe` collects the answer."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(LOADER_PROGRAM)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def finish_probe(child: subprocess.Popen[bytes], timeout_s: float = TIME_LIMIT_S) -> Report:
    try:
        out, _ = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return Report(error=f"a driver did not answer within {timeout_s:.0f} s")
    if child.returncode != 0:
        return Report(error=f"a driver crashed the process that asked (exit {child.returncode})")
    return msgspec.json.decode(out, type=Report)


def check(report: Report) -> Check:
    """Only camera observations need it; others are computed without a renderer."""
    told = "; ".join(
        f"{each.name} ({each.type}, Vulkan {each.api}, {each.driver})"
        + (f", lacks {', '.join(each.lacks)}" if each.lacks else "")
        for each in report.devices
    )
    usable = any(not each.lacks for each in report.devices)
    if usable:
        return Check(name="vulkan", ok=True, detail=told)
    reason = f"no device that SAPIEN can use: {told}" if told else report.error
    return Check(
        name="vulkan", ok=False, detail=f"{reason} (cameras of ManiSkill need one)", fix=FIX
    )
