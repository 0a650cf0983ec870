"""This machine as a cluster of one node: what the process may use, not what the machine has.

Cores are counted by affinity and by the CPU quota of the control group, memory by its limit,
devices through NVML. Invariant: nothing is assumed to be there; what cannot be read is absent.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil

from ebrl.errors import PlanError
from ebrl.planner import nvml
from ebrl.planner.hardware import Cluster, DeviceKind, NodeClass

NETWORK_BYTES_PER_S = 1.25e9  # 10 Gbit/s, assumed: one machine rarely talks to another


def local(root: Path = Path("/")) -> Cluster:
    """This machine. `root` is where /proc and /sys are looked for."""
    ids = sorted(os.sched_getaffinity(0))
    cores = len(ids)
    quota = cpu_quota(root)
    if quota is not None:
        cores = max(1, min(cores, int(quota)))
    numa = domains(root, ids[:cores])
    kind, devices = _devices()
    node = NodeClass(
        name="local",
        count=1,
        cores=cores,
        ram_bytes=min(psutil.virtual_memory().total, memory_limit(root) or 2**63),
        device=kind,
        devices=devices,
        network_bytes_per_s=NETWORK_BYTES_PER_S,
        numa=numa,
    )
    return Cluster(text="local", nodes=(node,), local=True)


def _devices() -> tuple[DeviceKind | None, int]:
    """The kind of the machine's GPUs and how many; of a mixture, the most numerous kind."""
    try:
        found = nvml.devices()
    except nvml.UnavailableError:
        return None, 0
    if not found:
        return None, 0
    count = Counter(found)
    kind = max(count, key=lambda each: (count[each], each.memory_bytes))
    return kind, count[kind]


def cpu_quota(root: Path) -> float | None:
    """Cores that the control groups of this process allow, or None where they do not limit them."""
    return _tightest(root, "cpu", _quota_v2, _quota_v1)


def memory_limit(root: Path) -> int | None:
    """Bytes that the control groups of this process allow, or None where they do not limit them."""
    limit = _tightest(root, "memory", _memory_v2, _memory_v1)
    return None if limit is None else int(limit)


def _quota_v2(group: Path) -> float | None:
    words = _read(group / "cpu.max").split()
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0] != "max" else None


def _quota_v1(group: Path) -> float | None:
    quota, period = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota and period and int(quota) > 0 else None


def _memory_v2(group: Path) -> float | None:
    text = _read(group / "memory.max")
    return int(text) if text and text != "max" else None


def _memory_v1(group: Path) -> float | None:
    text = _read(group / "memory.limit_in_bytes")
    # Version 1 writes "no limit" as the largest multiple of a page.
    return int(text) if text and int(text) < 2**60 else None


def _tightest(
    root: Path,
    controller: str,
    v2: Callable[[Path], float | None],
    v1: Callable[[Path], float | None],
) -> float | None:
    """The smallest limit on the way from this process's group to the root of its hierarchy.

    Inside a container the path that /proc tells may not exist; then its parents are what applies.
    """
    limits: list[float] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            mount, ask = root / "sys/fs/cgroup", v2
        elif controller in controllers.split(","):
            mount, ask = root / "sys/fs/cgroup" / controllers, v1
            if not mount.exists():
                mount = root / "sys/fs/cgroup" / controller
        else:
            continue
        group = mount / path.lstrip("/")
        for each in (group, *group.parents):
            if not each.is_relative_to(mount):
                break
            try:
                limit = ask(each)
            except ValueError:
                continue
            if limit is not None:
                limits.append(limit)
    return min(limits, default=None)


def domains(root: Path, ids: list[int]) -> tuple[tuple[int, ...], ...]:
    """The core ids of each NUMA domain, of those in `ids`; one domain where /sys does not tell."""
    found: list[tuple[int, ...]] = []
    allowed = set(ids)
    nodes = root / "sys/devices/system/node"
    for folder in sorted(nodes.glob("node[0-9]*"), key=lambda each: int(each.name[4:])):
        here = tuple(core for core in core_list(_read(folder / "cpulist")) if core in allowed)
        if here:
            found.append(here)
    if sum(len(each) for each in found) != len(ids):
        return (tuple(ids),)
    return tuple(found)


def core_list(text: str) -> tuple[int, ...]:
    """A list such as "0-3,8" → (0, 1, 2, 3, 8). Raises PlanError for anything else."""
    cores: list[int] = []
    for part in text.replace(" ", "").split(",") if text.strip() else ():
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise PlanError("cores-malformed", f"{part!r} is not a range of cores such as 0-31")
        cores.extend(range(first, last + 1))
    return tuple(cores)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
