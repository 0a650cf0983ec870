"""Stage times as data: points with provenance, and the file that keeps them.

A point says what it is: measured here, published by others, or estimated by a formula. Invariant:
nothing here ever raises a point's standing; where two profiles know the same place, the better
founded point is kept (measured, then published, then estimated), and among equals the later one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ebrl.errors import PlanError

FORMAT: Literal["ebrl-profile/1"] = "ebrl-profile/1"
CPU = "cpu"  # the device of a stage that runs on cores alone
MOST_BYTES = 256 * 1024**2
Source = Literal["measured", "published", "estimated"]
SOURCES: tuple[Source, ...] = ("measured", "published", "estimated")  # by falling standing
STANDING: dict[str, int] = {source: rank for rank, source in enumerate(SOURCES)}
Place = tuple[str, str, int, float, int]


class Point(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time of one batch of a stage on one quota. `bytes` is device memory (or RAM, on cores),
    0 where the source does not state it.

    `samples` is how many timings the median and the 95th percentile are taken over; 0 means that
    the source does not say, and where it gives no spread either, `p95_s` repeats the median.
    """

    stage: Annotated[str, Meta(min_length=1)]  # profile key of the stage
    device: Annotated[str, Meta(min_length=1)]  # kind of device, or "cpu"
    sms: Annotated[int, Meta(ge=0)] = 0
    cores: Annotated[float, Meta(gt=0)]
    batch: Annotated[int, Meta(ge=1)]
    median_s: Annotated[float, Meta(gt=0)]
    p95_s: Annotated[float, Meta(gt=0)]
    bytes: Annotated[int, Meta(ge=0)]
    source: Source
    origin: str = ""  # where it comes from: a machine, a paper, a formula
    samples: Annotated[int, Meta(ge=0)] = 0
    ram_bytes: Annotated[int, Meta(ge=0)] = 0  # host memory of a stage that runs on a device
    note: str = ""

    @property
    def place(self) -> Place:
        """What the point is about: two points of one place say the same thing twice."""
        return (self.stage, self.device, self.sms, self.cores, self.batch)


class Together(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much longer stages take while they run at the same time, over running alone.

    On a device these are the interference factors of its patterns. On cores (`device` "cpu") the
    points themselves were taken in company, and this says by how much that matters.
    """

    stages: tuple[str, ...]  # profile keys, sorted
    device: str
    factors: dict[str, Annotated[float, Meta(gt=0)]]  # of each of them
    source: Source = "measured"
    origin: str = ""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A profile file. Points are in the order of their places, each place once."""

    format: Literal["ebrl-profile/1"] = FORMAT
    note: str = ""
    points: tuple[Point, ...]
    together: tuple[Together, ...] = ()

    def digest(self) -> str:
        return digest(self.points)


def of(points: Iterable[Point], note: str = "", together: Iterable[Together] = ()) -> Profile:
    """A profile of these points: of each place the best founded, and of equals the last."""
    best: dict[Place, Point] = {}
    for point in points:
        known = best.get(point.place)
        if known is None or STANDING[point.source] <= STANDING[known.source]:
            best[point.place] = point
    met = {(each.device, each.stages): each for each in together}
    return Profile(
        note=note,
        points=tuple(best[place] for place in sorted(best)),
        together=tuple(met[company] for company in sorted(met)),
    )


def merge(*profiles: Profile) -> Profile:
    """One profile; precedence measured, published, estimated, then the later argument."""
    notes = dict.fromkeys(profile.note for profile in profiles if profile.note)
    return of(
        (point for profile in profiles for point in profile.points),
        "; ".join(notes),
        (each for profile in profiles for each in profile.together),
    )


def digest(points: Iterable[Point]) -> str:
    """sha256 over the points, whatever their order, the same before and after a file (where 3 and
    3.0 are one float)."""
    read = msgspec.json.decode(msgspec.json.encode(list(points)), type=list[Point])
    body = sorted(msgspec.json.encode(point, order="sorted") for point in read)
    return hashlib.sha256(b"\n".join(body)).hexdigest()


def encode(profile: Profile) -> bytes:
    """JSON, indented, with a trailing newline. Equal profiles give equal bytes."""
    return msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n"


def read(path: Path) -> Profile:
    """Parse strictly; any fault is one PlanError with the path inside the file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlanError(
            "profile-unreadable",
            f"cannot read the profile: {error.strerror}",
            where=str(path),
            hint="make one with: ebrl profile GRAPH -o FILE",
        ) from error
    if len(data) > MOST_BYTES:
        raise PlanError("profile-malformed", f"{len(data):,} bytes is no profile", where=str(path))
    return decode(data, str(path))


def decode(data: bytes, path: str) -> Profile:
    """The profile in these bytes; `path` is for messages."""
    try:
        profile = msgspec.json.decode(data, type=Profile)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `")
        place = place.rstrip("`").removeprefix("$").removeprefix(".")
        raise _malformed(path, place, message[:1].lower() + message[1:]) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        position = re.search(r"byte (\d+)|position (\d+)", str(error))
        at = int(position[1] or position[2]) if position else len(data)
        line = data[:at].count(b"\n") + 1
        raise _malformed(path, f"line {line}", f"it is not JSON: {error}") from error
    places: dict[Place, int] = {}
    for index, point in enumerate(profile.points):
        place = f"points[{index}]"
        if point.p95_s < point.median_s:
            raise _malformed(
                path, f"{place}.p95_s", f"{point.p95_s} is less than the median, {point.median_s}"
            )
        if (point.device == CPU) != (point.sms == 0):
            rule = "0 on cores alone" if point.device == CPU else "1 or more on a device"
            raise _malformed(path, f"{place}.sms", f"it must be {rule}, not {point.sms}")
        if point.place in places:
            first = places[point.place]
            raise _malformed(path, place, f"it says the same thing as points[{first}]")
        places[point.place] = index
    return of(profile.points, profile.note, profile.together)


def _malformed(path: str, place: str, message: str) -> PlanError:
    return PlanError(
        "profile-malformed",
        message,
        where=f"{path}: {place}" if place else path,
        hint="the file was edited, cut short or written by another version; profile again",
    )
