"""Hardware as the planner sees it: classes of equal nodes with cores, memory and equal devices.

Invariant: a class is counted, never listed; a thousand equal nodes cost no more than one.
"""

from __future__ import annotations

import hashlib
import math
from typing import Literal

import msgspec


class DeviceKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of GPU. Rates in FLOP/s and bytes/s, dense; `sm_step` is the grid of SM quotas.

    `bf16_flops` is the dense 16-bit tensor rate; on kinds without bf16 it is that of fp16, and
    `half` says so. `partition` is the finest way to cap a stage: green contexts (disjoint sets of
    SMs), or the percentage of CUDA MPS where there are none.
    """

    name: str
    sms: int
    sm_min: int
    sm_step: int
    memory_bytes: int
    memory_bytes_per_s: float
    bf16_flops: float
    fp32_flops: float
    link_bytes_per_s: float  # to its neighbours in the node, one direction
    source: str = ""
    half: Literal["bf16", "fp16"] = "bf16"
    partition: Literal["green context", "mps"] = "green context"
    mps_step_percent: int = 1

    def quotas(self) -> tuple[int, ...]:
        """SM quotas that can be granted: the grid below the whole device, then the whole device."""
        grid = range(self.sm_min, self.sms, self.sm_step)
        return (*grid, self.sms)


def mps_percent(sms: int, of: int) -> int:
    """The least whole percentage of CUDA MPS that is at least `sms` of a device's `of` SMs."""
    return min(100, max(1, math.ceil(100 * sms / of - 1e-9)))


class NodeClass(msgspec.Struct, frozen=True, kw_only=True):
    """`count` equal nodes. A core is one that the operating system schedules on.

    `numa` lists the core ids of each NUMA domain where known: empty, or `cores` ids in all.
    """

    name: str
    count: int
    cores: int
    ram_bytes: int
    device: DeviceKind | None = None
    devices: int = 0
    network_bytes_per_s: float = 12.5e9
    price_per_hour: float | None = None
    numa: tuple[tuple[int, ...], ...] = ()


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What the user named with `--cluster`, resolved. Names of its classes are unique."""

    text: str
    nodes: tuple[NodeClass, ...]
    local: bool = False  # this machine, detected

    def digest(self) -> str:
        """sha256, the same before and after a file (where 3 and 3.0 are one float)."""
        read = msgspec.json.decode(msgspec.json.encode(self), type=Cluster)
        return hashlib.sha256(msgspec.json.encode(read, order="sorted")).hexdigest()
