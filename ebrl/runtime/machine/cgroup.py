"""What control groups leave of the machine's cores and memory.

Invariant: a limit on any ancestor counts, so the smallest on the way to the root is the answer, and
a hierarchy that cannot be read is no limit. Both versions are read: v2 (`cpu.max`, `memory.max`)
and v1 (`cpu.cfs_quota_us`, `memory.limit_in_bytes`); hybrid machines have both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_UNLIMITED_BYTES = 1 << 60  # v1 writes "no limit" as a huge page-aligned number


def cores(root: Path = Path("/")) -> float | None:
    """Core-seconds a second that the quota allows, or None without a quota."""
    found = [
        *(_v2_cores(each) for each in _folders(root, "")),
        *(_v1_cores(each) for each in _folders(root, "cpu")),
    ]
    return min((each for each in found if each is not None), default=None)


def memory_bytes(root: Path = Path("/")) -> int | None:
    """Bytes of memory that the limit allows, or None without a limit."""
    found = [
        *(_number(each / "memory.max") for each in _folders(root, "")),
        *(_number(each / "memory.limit_in_bytes") for each in _folders(root, "memory")),
    ]
    return min(
        (each for each in found if each is not None and each < _UNLIMITED_BYTES), default=None
    )


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """This process's folder in the hierarchy of `controller` ("" is v2), then its ancestors."""
    mounts = _lines(root / "proc/self/mounts")
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controller not in controllers.split(","):
            continue
        for mount in mounts:
            _, where, kind, options, *_ = mount.split(" ")
            v2 = controller == "" and kind == "cgroup2"
            v1 = controller != "" and kind == "cgroup" and controller in options.split(",")
            if not (v1 or v2):
                continue
            base = root / where.lstrip("/")
            # In a container the path may be the host's, which the mount does not show: its
            # ancestors that are not there are skipped, the mount's own root is always asked.
            inner = PurePosixPath(path)
            yield from (base / str(each).lstrip("/") for each in (inner, *inner.parents))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _v2_cores(folder: Path) -> float | None:
    words = " ".join(_lines(folder / "cpu.max")).split()
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0] != "max" else None


def _v1_cores(folder: Path) -> float | None:
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return quota / period if quota is not None and period and quota > 0 else None


def _number(file: Path) -> int | None:
    text = "".join(_lines(file)).strip()
    return int(text) if text.lstrip("-").isdigit() else None
