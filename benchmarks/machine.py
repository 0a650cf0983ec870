"""The machine a benchmark ran on: absolute times mean nothing without it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

PACKAGES = ("torch", "numpy", "gymnasium", "mani-skill", "highspy", "PuLP")


def describe() -> dict[str, Any]:
    """Processor, cores, load, Python and the versions of what does the work."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_1min": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()
