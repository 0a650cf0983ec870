"""Lists the Vulkan devices as JSON, through the loader by ctypes: a program, run by itself.

Invariant: the standard library only, and nothing of ebrl, so that it starts in milliseconds and the
process that a broken driver takes with it is this one. See `ebrl.runtime.machine.vulkan`.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

LOADER = "libvulkan.1.dylib" if sys.platform == "darwin" else "libvulkan.so.1"
TYPES = ("other", "integrated GPU", "discrete GPU", "virtual GPU", "software")
REQUIRED_EXTENSION = b"VK_EXT_extended_dynamic_state"
Told = dict[str, object]

_u32, _ptr = ctypes.c_uint32, ctypes.c_void_p


class _ApplicationInfo(ctypes.Structure):
    _fields_ = (
        ("sType", _u32),
        ("pNext", _ptr),
        ("pApplicationName", ctypes.c_char_p),
        ("applicationVersion", _u32),
        ("pEngineName", ctypes.c_char_p),
        ("engineVersion", _u32),
        ("apiVersion", _u32),
    )


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = (
        ("sType", _u32),
        ("pNext", _ptr),
        ("flags", _u32),
        ("pApplicationInfo", _ptr),
        ("enabledLayerCount", _u32),
        ("ppEnabledLayerNames", _ptr),
        ("enabledExtensionCount", _u32),
        ("ppEnabledExtensionNames", _ptr),
    )


class _Properties2(ctypes.Structure):
    """VkPhysicalDeviceProperties2; what follows the name (limits, 824 bytes in all) is not read."""

    _fields_ = (
        ("sType", _u32),
        ("pNext", _ptr),
        ("apiVersion", _u32),
        ("driverVersion", _u32),
        ("vendorID", _u32),
        ("deviceID", _u32),
        ("deviceType", _u32),
        ("deviceName", ctypes.c_char * 256),
        ("rest", ctypes.c_uint64 * 128),
    )


class _DriverProperties(ctypes.Structure):
    _fields_ = (
        ("sType", _u32),
        ("pNext", _ptr),
        ("driverID", _u32),
        ("driverName", ctypes.c_char * 256),
        ("driverInfo", ctypes.c_char * 256),
        ("conformanceVersion", ctypes.c_uint8 * 4),
    )


class _Features(ctypes.Structure):
    """Any of the feature structures: a header, then 32-bit flags as the specification orders."""

    _fields_ = (("sType", _u32), ("pNext", _ptr), ("flags", _u32 * 64))


class _ExtensionProperties(ctypes.Structure):
    _fields_ = (("extensionName", ctypes.c_char * 256), ("specVersion", _u32))


_INDEPENDENT_BLEND = 3  # of VkPhysicalDeviceFeatures
_PARTIALLY_BOUND = 17  # of VkPhysicalDeviceDescriptorIndexingFeatures
_TIMELINE_SEMAPHORE = 0  # of VkPhysicalDeviceTimelineSemaphoreFeatures


def _version(packed: int) -> str:
    return f"{packed >> 22 & 0x7F}.{packed >> 12 & 0x3FF}.{packed & 0xFFF}"


def ask_loader() -> Told:
    """Create an instance, list its devices: `devices`, and an `error` where there are none."""
    try:
        vk = ctypes.CDLL(LOADER)
    except OSError:
        return {"error": f"no Vulkan loader ({LOADER})"}
    application = _ApplicationInfo(sType=0, pApplicationName=b"ebrl", apiVersion=1 << 22 | 2 << 12)
    create = _InstanceCreateInfo(sType=1, pApplicationInfo=ctypes.addressof(application))
    instance = _ptr()
    result = vk.vkCreateInstance(ctypes.byref(create), None, ctypes.byref(instance))
    if result != 0:
        return {"error": f"the loader found no working driver (VkResult {result})"}
    count = _u32()
    vk.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    handles = (_ptr * count.value)()
    vk.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
    devices = [_describe(vk, _ptr(handle)) for handle in handles]
    vk.vkDestroyInstance(instance, None)
    return {"devices": devices, "error": "" if devices else "the drivers found no device"}


def _describe(vk: Any, handle: ctypes.c_void_p) -> Told:
    driver = _DriverProperties(sType=1000196000)
    properties = _Properties2(sType=1000059001, pNext=ctypes.addressof(driver))
    vk.vkGetPhysicalDeviceProperties2(handle, ctypes.byref(properties))
    timeline = _Features(sType=1000207000)
    indexing = _Features(sType=1000161001, pNext=ctypes.addressof(timeline))
    basic = _Features(sType=1000059000, pNext=ctypes.addressof(indexing))
    vk.vkGetPhysicalDeviceFeatures2(handle, ctypes.byref(basic))
    has = {
        "independentBlend": basic.flags[_INDEPENDENT_BLEND],
        "descriptorBindingPartiallyBound": indexing.flags[_PARTIALLY_BOUND],
        "timelineSemaphore": timeline.flags[_TIMELINE_SEMAPHORE],
        REQUIRED_EXTENSION.decode(): REQUIRED_EXTENSION in _extensions(vk, handle),
    }
    kind = properties.deviceType
    return {
        "name": properties.deviceName.decode(errors="replace"),
        "type": TYPES[kind] if kind < len(TYPES) else TYPES[0],
        "api": _version(properties.apiVersion),
        "driver": " ".join(
            part.decode(errors="replace") for part in (driver.driverName, driver.driverInfo) if part
        ),
        "lacks": [name for name, there in has.items() if not there],
    }


def _extensions(vk: Any, handle: ctypes.c_void_p) -> set[bytes]:
    count = _u32()
    vk.vkEnumerateDeviceExtensionProperties(handle, None, ctypes.byref(count), None)
    found = (_ExtensionProperties * count.value)()
    vk.vkEnumerateDeviceExtensionProperties(handle, None, ctypes.byref(count), found)
    return {each.extensionName for each in found}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(ask_loader()))
