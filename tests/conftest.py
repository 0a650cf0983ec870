"""What every test stands on: a cache of its own, and only the hardware that is there."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebrl.runtime.machine import devices, software, vulkan

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    # Programs that tests start find the package too, installed or not.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine cannot run, saying why."""
    lacks = {"gpu": _no_gpu, "maniskill": _no_maniskill, "vulkan": _no_vulkan}
    for name, ask in lacks.items():
        marked = [item for item in items if item.get_closest_marker(name)]
        reason = ask() if marked else ""
        for item in marked if reason else ():
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Probed specs and calibrations live here while tests run, not in the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EBRL_CACHE", str(folder))
        yield folder


@pytest.fixture
def python() -> str:
    """The interpreter to start programs with."""
    return sys.executable


def _no_gpu() -> str:
    return "" if devices.look().devices else "no NVIDIA GPU"


def _no_maniskill() -> str:
    if importlib.util.find_spec("mani_skill") is None:
        return "ManiSkill is not installed"
    missing = software.missing_libraries()
    return f"ManiSkill cannot load {', '.join(missing)}" if missing else ""


def _no_vulkan() -> str:
    found = vulkan.check(vulkan.finish_probe(vulkan.start_probe()))
    return "" if found.ok else found.detail
