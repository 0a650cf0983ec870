"""Cores, memory, shared memory, wake-ups, file handles and disk: what the data plane stands on."""

from __future__ import annotations

import mmap
import os
import resource
import shutil
import sys
from pathlib import Path

import psutil

from ebrl.planner import detect
from ebrl.runtime.machine.check import Check

GB = 1e9
MIN_SHM_BYTES = 256_000_000
MIN_RAM_BYTES = 4e9
MIN_FILES = 1024
MIN_DISK_BYTES = 2e9


def cores(root: Path = Path("/")) -> Check:
    """Cores this process may run on. `root` is where the control groups are looked for."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    present = os.cpu_count() or 1
    quota = detect.cpu_quota(root)
    usable = min(allowed or present, quota or present)
    limits = [
        f"{allowed} by affinity" if allowed is not None and allowed < present else "",
        f"{quota:g} by control group" if quota is not None and quota < present else "",
    ]
    detail = ", ".join([f"{usable:g} of {present} cores", *filter(None, limits)])
    if usable >= 1:
        return Check(name="cores", ok=True, detail=detail, required=True)
    return Check(
        name="cores",
        ok=False,
        detail=detail,
        fix="raise the control group's CPU quota (containers: --cpus) to at least one core",
        required=True,
    )


def memory(root: Path = Path("/")) -> Check:
    """RAM, or what a control group leaves of it."""
    machine = psutil.virtual_memory()
    limit = detect.memory_limit(root)
    total = min(machine.total, limit or machine.total)
    detail = f"{total / GB:.1f} GB" + (
        f" by control group (machine: {machine.total / GB:.1f} GB)"
        if limit is not None and limit < machine.total
        else f", {machine.available / GB:.1f} GB available"
    )
    if total >= MIN_RAM_BYTES:
        return Check(name="memory", ok=True, detail=detail)
    return Check(
        name="memory",
        ok=False,
        detail=detail,
        fix=f"a small ManiSkill run takes about 1.6 GB and torch 0.3 GB a process: give it "
        f"{MIN_RAM_BYTES / GB:.0f} GB, or plan with fewer environments",
    )


def shared_memory(mount: Path = Path("/dev/shm")) -> Check:
    """The slab's pages come from `memfd`; torch and Ray use the mount as well."""
    try:
        descriptor = os.memfd_create("ebrl-doctor")
    except (AttributeError, OSError) as error:
        return Check(
            name="shared memory",
            ok=False,
            detail=f"memfd_create does not work: {error}",
            fix="run on Linux 3.17 or newer; in a sandbox, allow the memfd_create system call",
            required=True,
        )
    try:
        os.ftruncate(descriptor, mmap.PAGESIZE)
        with mmap.mmap(descriptor, mmap.PAGESIZE) as page:
            page[0] = 1
    finally:
        os.close(descriptor)
    try:
        size = shutil.disk_usage(mount)
    except OSError:
        size = None
    if size is None or size.free < MIN_SHM_BYTES:
        told = f"{mount} has {size.free / GB:.2f} GB free" if size else f"there is no {mount}"
        return Check(
            name="shared memory",
            ok=False,
            detail=f"memfd works, but {told}; torch and Ray need it",
            fix=f"mount -o remount,size=2G {mount} (containers: --shm-size=2g)",
        )
    detail = f"memfd works; {mount} {size.total / GB:.1f} GB, {size.free / GB:.1f} GB free"
    return Check(name="shared memory", ok=True, detail=detail, required=True)


def wake_ups() -> Check:
    """`eventfd` wakes the other side once a batch."""
    try:
        descriptor = os.eventfd(1)
    except (AttributeError, OSError) as error:
        return Check(
            name="eventfd",
            ok=False,
            detail=f"eventfd does not work: {error}",
            fix="run on Linux; in a sandbox, allow the eventfd2 system call",
            required=True,
        )
    try:
        told = os.eventfd_read(descriptor)
    finally:
        os.close(descriptor)
    assert told == 1, f"eventfd gave {told}"
    return Check(name="eventfd", ok=True, detail="works", required=True)


def files() -> Check:
    """Open file handles allowed to one process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    told = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    detail = f"{soft} open files (up to {told})"
    if soft == resource.RLIM_INFINITY or soft >= MIN_FILES:
        return Check(name="file handles", ok=True, detail=detail)
    return Check(
        name="file handles",
        ok=False,
        detail=detail,
        fix=f"ulimit -n {MIN_FILES} before starting; for good, in /etc/security/limits.conf",
    )


def disk(folder: Path | None = None) -> Check:
    """Room for checkpoints and curves where runs are written."""
    where = folder or Path.cwd()
    free = shutil.disk_usage(where).free
    detail = f"{free / GB:.1f} GB free in {where}"
    if free >= MIN_DISK_BYTES:
        return Check(name="disk", ok=True, detail=detail)
    return Check(
        name="disk",
        ok=False,
        detail=detail,
        fix="free some space, or write runs elsewhere with --logdir",
    )


def python() -> Check:
    """The version that the package declares."""
    version = ".".join(map(str, sys.version_info[:3]))
    ok = (3, 11) <= sys.version_info[:2] < (3, 14)
    return Check(
        name="python",
        ok=ok,
        detail=f"{version} ({sys.executable})",
        fix="" if ok else "use Python 3.11, 3.12 or 3.13: python3.11 -m venv .venv",
        required=True,
    )
