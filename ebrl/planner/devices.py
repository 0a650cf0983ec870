"""The catalogue of devices: what each kind is, and where every figure was read."""

from __future__ import annotations

import msgspec

from ebrl.planner.hardware import DeviceKind


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the catalogue with its source, as `ebrl clusters --json` prints it."""

    name: str
    value: float
    source: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of device, the node it usually comes in, and the sources."""

    kind: DeviceKind
    title: str
    aliases: tuple[str, ...]
    cores_per_device: float
    ram_bytes_per_device: int
    network_bytes_per_s: float
    sources: dict[str, str]  # figure → where it was read


def entries() -> tuple[Entry, ...]:
    raise NotImplementedError


def catalogue() -> tuple[DeviceKind, ...]:
    raise NotImplementedError


def find(name: str) -> DeviceKind:
    """By name or alias, in any case. An unknown name is a PlanError with near misses."""
    raise NotImplementedError
