"""Stage times as data: points with provenance, and the file that keeps them.

A point says what it is: measured here, published by others, or estimated by a formula. Invariant:
nothing here ever raises a point's standing; where two profiles know the same point, the better
founded one is kept (measured, then published, then estimated), and among equals the later file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from ebrl.errors import PlanError

FORMAT = "ebrl-profile/1"
CPU = "cpu"  # the device of a stage that runs on cores alone
Source = Literal["measured", "published", "estimated"]
STANDING: dict[str, int] = {"measured": 0, "published": 1, "estimated": 2}


class Point(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time of one batch of a stage on one quota. `bytes` is device memory (or RAM, on cores).

    `samples` is how many timings the median and the 95th percentile are taken over; 0 means that the
    source does not say, and where it gives no spread either, `p95_s` repeats the median.
    """

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
    samples: int = 0
    ram_bytes: int = 0  # host memory of a stage that runs on a device
    note: str = ""

    @property
    def place(self) -> tuple[str, str, int, float, int]:
        """What the point is about: two points of the same place say the same thing twice."""
        return (self.stage, self.device, self.sms, self.cores, self.batch)


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A profile file. Points are in the order of their places, each place once."""

    format: Literal["ebrl-profile/1"] = FORMAT
    points: tuple[Point, ...]
    note: str = ""

    def digest(self) -> str:
        return digest(self.points)


def of(points: Iterable[Point], note: str = "") -> Profile:
    """A profile of these points: of each place the best founded, and of equals the last."""
    raise NotImplementedError


def merge(*profiles: Profile) -> Profile:
    """One profile; precedence measured, published, estimated, then the later argument."""
    raise NotImplementedError


def digest(points: Iterable[Point]) -> str:
    """sha256 over the points, whatever their order."""
    raise NotImplementedError


def encode(profile: Profile) -> bytes:
    """JSON, one indented object, with a trailing newline."""
    raise NotImplementedError


def read(path: Path) -> Profile:
    """Parse strictly; any fault is one PlanError with the path inside the file."""
    raise NotImplementedError
