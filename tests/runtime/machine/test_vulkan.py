"""Vulkan through the real loader where there is one, and through children that misbehave."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from ebrl.runtime.machine import vulkan
from ebrl.runtime.machine.vulkan import Device, Report

# As the loader tells them, of Debian 12's Mesa and of its backports'.
TOO_OLD = Device(
    name="llvmpipe (LLVM 15.0.6, 256 bits)",
    type="software",
    api="1.3.230",
    driver="llvmpipe Mesa 22.3.6 (LLVM 15.0.6)",
    lacks=("descriptorBindingPartiallyBound",),
)
GOOD = Device(
    name="llvmpipe (LLVM 15.0.6, 256 bits)",
    type="software",
    api="1.4.305",
    driver="llvmpipe Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)",
)


def child(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def test_a_driver_that_lacks_what_sapien_needs_is_named_with_what_it_lacks():
    check = vulkan.check(Report(devices=(TOO_OLD,)))
    assert not check.ok
    assert "Mesa 22.3.6" in check.detail
    assert "lacks descriptorBindingPartiallyBound" in check.detail
    assert "mesa-vulkan-drivers" in check.fix


def test_one_usable_device_is_enough():
    check = vulkan.check(Report(devices=(TOO_OLD, GOOD)))
    assert check.ok
    assert "Mesa 25.0.7" in check.detail


def test_no_device_is_told_with_the_loaders_reason():
    check = vulkan.check(Report(error="no Vulkan loader (libvulkan.so.1)"))
    assert not check.ok
    assert check.detail.startswith("no Vulkan loader")


def test_the_real_loader_answers():
    report = vulkan.finish_probe(vulkan.start_probe())
    assert report.devices or report.error
    for device in report.devices:
        assert device.name
        assert re.fullmatch(r"1\.\d+\.\d+", device.api)
        assert device.type in ("integrated GPU", "discrete GPU", "virtual GPU", "software")


def test_without_a_driver_the_real_loader_says_why(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent.json")
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent.json")
    report = vulkan.finish_probe(vulkan.start_probe())
    assert report.devices == ()
    assert re.search(r"no Vulkan loader|no working driver|no device", report.error)


def test_a_driver_that_crashes_costs_an_answer():
    report = vulkan.finish_probe(child("import os; os.abort()"))
    assert "crashed" in report.error


def test_a_driver_that_hangs_is_ended():
    hanging = child("import time; time.sleep(600)")
    report = vulkan.finish_probe(hanging, timeout_s=0.2)
    assert "did not answer" in report.error
    assert hanging.returncode is not None
