"""Measured stage times. A point says what it is: measured here, published by others, or estimated."""

from __future__ import annotations

from typing import Literal

import msgspec


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one batch of a stage on one quota. `bytes` is device memory (or RAM, on cores)."""

    stage: str  # profile key of the stage
    device: str  # kind of device, or "cpu"
    sms: int = 0
    cores: float
    batch: int
    median_s: float
    p95_s: float
    bytes: int
    source: Literal["measured", "published", "estimated"]
    origin: str = ""  # where it comes from: a machine, a paper, a formula
