"""Which packages are installed, and what build of them, without importing any of them.

Invariant: nothing here imports torch, ray or a simulator (that takes seconds); versions come from
package metadata, the torch build from the text of its version file.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil

from ebrl.runtime.machine.check import Check

MIN_TORCH = (2, 9)
# What ManiSkill's OpenCV loads and its wheel does not bring, with Debian's packages.
OPENCV_LIBRARIES = {"libGL.so.1": "libgl1", "libgthread-2.0.so.0": "libglib2.0-0"}


def version(package: str) -> str | None:
    """Installed version by distribution name, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def folder(module: str) -> Path | None:
    """Where a top-level module lies, found without importing it."""
    spec = importlib.util.find_spec(module)
    return Path(spec.origin).parent if spec and spec.origin else None


def torch_cuda() -> str | None:
    """The CUDA version that the installed torch was built for, or None for a CPU build."""
    where = folder("torch")
    if where is None:
        return None
    try:
        text = (where / "version.py").read_text()
    except OSError:
        return None
    found = re.search(r"^cuda\b[^=\n]*=\s*'([^']+)'", text, re.MULTILINE)
    return found.group(1) if found else None


def torch(gpu_present: bool) -> Check:
    """A CPU build on a machine with a GPU is a gap: every GPU plan would be refused."""
    found = version("torch")
    install = f"{sys.executable} -m pip install"
    if found is None:
        return Check(
            name="torch",
            ok=False,
            detail="not installed",
            fix=f"{install} 'torch>=2.9'",
            required=True,
        )
    cuda = torch_cuda()
    detail = f"{found} ({f'CUDA {cuda}' if cuda else 'CPU build'})"
    numbers = tuple(int(each) for each in re.findall(r"\d+", found)[:2])
    if numbers < MIN_TORCH:
        return Check(
            name="torch",
            ok=False,
            detail=detail,
            fix=f"{install} --upgrade 'torch>=2.9'",
            required=True,
        )
    if gpu_present and cuda is None:
        return Check(
            name="torch",
            ok=False,
            detail=f"{detail} on a machine with an NVIDIA GPU",
            fix=f"{install} --force-reinstall torch, from an index that has CUDA builds",
        )
    return Check(name="torch", ok=True, detail=detail, required=True)


def solver() -> Check:
    """HiGHS solves in this process; CBC, which PuLP may bring along, is the second choice."""
    highs, pulp = version("highspy"), version("pulp")
    bundled = folder("pulp")
    cbc = shutil.which("cbc") is not None or (
        bundled is not None and any((bundled / "solverdir/cbc").glob("*/*/cbc*"))
    )
    have = [f"HiGHS {highs}" if highs else "", "CBC" if cbc else ""]
    detail = f"PuLP {pulp or 'missing'} with {' and '.join(filter(None, have)) or 'no solver'}"
    if pulp and (highs or cbc):
        return Check(name="solver", ok=True, detail=detail, required=True)
    return Check(
        name="solver",
        ok=False,
        detail=detail,
        fix=f"{sys.executable} -m pip install 'pulp>=3.3,<5' highspy",
        required=True,
    )


def simulators() -> Check:
    """Gymnasium is a dependency; ManiSkill an extra."""
    found = {name: version(name) for name in ("gymnasium", "mani-skill", "sapien", "mujoco")}
    detail = ", ".join(f"{name} {it}" for name, it in found.items() if it) or "none"
    missing = [name for name in ("gymnasium", "mani-skill") if found[name] is None]
    if missing:
        return Check(
            name="simulators",
            ok=False,
            detail=f"{detail}; not installed: {', '.join(missing)}",
            fix=f"{sys.executable} -m pip install {' '.join(missing)}",
        )
    libraries = missing_libraries()
    if libraries:
        packages = " ".join(OPENCV_LIBRARIES[each] for each in libraries)
        return Check(
            name="simulators",
            ok=False,
            detail=f"{detail}; ManiSkill's OpenCV cannot load {', '.join(libraries)}",
            fix=f"sudo apt-get install {packages} (other systems: the packages with these files)",
        )
    return Check(name="simulators", ok=True, detail=detail)


def missing_libraries(names: Iterable[str] = tuple(OPENCV_LIBRARIES)) -> list[str]:
    """Those that the system's loader does not find (on Linux; elsewhere wheels bring them)."""
    missing = []
    for name in names if sys.platform == "linux" else ():
        try:
            ctypes.CDLL(name)
        except OSError:
            missing.append(name)
    return missing


def ray() -> Check:
    """Only the `ray` engine needs it; it starts its own processes when none run."""
    found = version("ray")
    if found is None:
        return Check(
            name="ray",
            ok=False,
            detail="not installed; runs on one machine do not need it",
            fix=f"{sys.executable} -m pip install 'ray>=2.40', for the ray engine",
        )
    address = os.environ.get("RAY_ADDRESS")
    state = (
        f"cluster at {address}"
        if address
        else "running on this machine"
        if running("raylet")
        else "not running; the engine starts it"
    )
    return Check(name="ray", ok=True, detail=f"{found}, {state}")


def running(name: str) -> bool:
    """Is there a process of this name on the machine?"""
    return any(process.info["name"] == name for process in psutil.process_iter(["name"]))
