"""The catalogue of devices: what each kind is, the node it comes in, and where it was read.

Invariant: no figure without a source. The data is `data/devices.toml`; this module only reads it.
"""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from ebrl.errors import PlanError
from ebrl.planner.hardware import DeviceKind

MIB = 1024**2
GIB = 1024**3


class Node(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The machine that a device's defaults were read from, shared out evenly among its devices."""

    devices: int
    cores: int
    ram_gib: int
    network_gbit_per_s: float


class Sources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where each figure was read; "assumed: …" where nobody specified it."""

    sms: str
    quota: str
    memory: str
    memory_rate: str
    half: str
    fp32: str
    link: str
    node: str


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of device as the catalogue knows it. Rates are dense, per device, one direction."""

    name: str
    title: str
    aliases: tuple[str, ...]
    driver_names: tuple[str, ...]  # as NVML and nvidia-smi call it
    architecture: Literal["volta", "turing", "ampere", "ada", "hopper", "blackwell"]
    sms: int
    sm_min: int
    sm_step: int
    partition: Literal["green context", "mps"]
    half: Literal["bf16", "fp16"]
    memory_mib: int
    memory_gb_per_s: float
    half_tflops: float
    fp32_tflops: float
    link_gb_per_s: float
    node: Node
    sources: Sources

    @property
    def kind(self) -> DeviceKind:
        return DeviceKind(
            name=self.name,
            sms=self.sms,
            sm_min=self.sm_min,
            sm_step=self.sm_step,
            memory_bytes=self.memory_mib * MIB,
            memory_bytes_per_s=self.memory_gb_per_s * 1e9,
            bf16_flops=self.half_tflops * 1e12,
            fp32_flops=self.fp32_tflops * 1e12,
            link_bytes_per_s=self.link_gb_per_s * 1e9,
            source=self.sources.half,
            half=self.half,
            partition=self.partition,
        )

    def cores(self, devices: int) -> int:
        """Cores of a node with that many devices, by default."""
        return max(1, round(devices * self.node.cores / self.node.devices))

    def ram_bytes(self, devices: int) -> int:
        return devices * self.node.ram_gib * GIB // self.node.devices

    def network_bytes_per_s(self, devices: int) -> float:
        return devices * self.node.network_gbit_per_s * 1e9 / 8 / self.node.devices


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    device: tuple[Entry, ...]


@cache
def entries() -> tuple[Entry, ...]:
    """The catalogue, in the order of its file."""
    text = files("ebrl.planner.data").joinpath("devices.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), type=_File).device


def catalogue() -> tuple[DeviceKind, ...]:
    return tuple(entry.kind for entry in entries())


@cache
def _by_name() -> dict[str, Entry]:
    return {name: entry for entry in entries() for name in (entry.name, *entry.aliases)}


def lookup(name: str) -> Entry | None:
    """By name or alias, in any case; None where there is none."""
    return _by_name().get(name.strip().lower())


def entry(name: str) -> Entry:
    """By name or alias, in any case. An unknown name is a PlanError with near misses."""
    found = lookup(name)
    if found is None:
        raise PlanError(
            "device-unknown", f"no device is called {name!r}", where="devices", hint=near(name)
        )
    return found


def find(name: str) -> DeviceKind:
    """The kind of that name or alias; PlanError with near misses where there is none."""
    return entry(name).kind


def near(name: str) -> str:
    """A hint: names that resemble this one."""
    close = difflib.get_close_matches(name.lower(), list(_by_name()), n=3, cutoff=0.5)
    kinds = list(dict.fromkeys(_by_name()[each].name for each in close))
    if kinds:
        return f"did you mean {' or '.join(kinds)}? `ebrl clusters` lists all devices"
    return "`ebrl clusters` lists all devices; a YAML file may declare others"


HEADINGS = ("device", "SMs", "quota", "GiB", "GB/s", "16-bit", "fp32", "link", "cores", "RAM")
LEGEND = """
Of one device: memory in GiB and GB/s, dense rates in TFLOP/s, its link in GB/s one way.
A quota is the least number of SMs and the step, by green context or MPS. Cores and RAM
(GiB) are what --cluster assumes for each device. * fp16: the device has no bf16.
The source of every figure: --json."""


def cells(entry: Entry) -> tuple[str, ...]:
    """One line of the table that `ebrl clusters` prints."""
    kind = entry.kind
    how = "" if kind.partition == "green context" else " MPS"
    return (
        kind.name,
        str(kind.sms),
        f"{kind.sm_min} by {kind.sm_step}{how}",
        f"{kind.memory_bytes / GIB:.0f}",
        f"{entry.memory_gb_per_s:g}",
        f"{entry.half_tflops:g}" + ("*" if kind.half == "fp16" else ""),
        f"{entry.fp32_tflops:g}",
        f"{entry.link_gb_per_s:g}",
        str(entry.cores(1)),
        f"{entry.ram_bytes(1) / GIB:.0f}",
    )


def row(entry: Entry) -> dict[str, object]:
    """One device as `ebrl clusters --json` prints it, with the source of every figure."""
    kind = msgspec.structs.asdict(entry.kind)
    del kind["source"]
    return {
        **kind,
        "title": entry.title,
        "aliases": entry.aliases,
        "architecture": entry.architecture,
        "cores_per_device": entry.cores(1),
        "ram_bytes_per_device": entry.ram_bytes(1),
        "network_bytes_per_s_per_device": entry.network_bytes_per_s(1),
        "sources": msgspec.structs.asdict(entry.sources),
    }
