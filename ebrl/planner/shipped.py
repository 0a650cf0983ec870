"""The profiles that come with the package, built from figures that others published.

`python -m ebrl.planner.shipped` writes them anew from `data/published.toml`. Invariants: a figure
whose hardware its source does not state is never shipped (it may illustrate, never calibrate); a
shipped point is `published`, carries its source, and holds for the whole device it was read on.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from ebrl.frontend.program import Program
from ebrl.planner import devices, profile
from ebrl.planner.profile import Point, Profile

# Which published figure (by its `what`, device) belongs to which stage, under which profile key.
# Where the entry's `seconds` are of another model than the key's, its own source has the figure.
KEYS: dict[tuple[str, str], dict[str, tuple[float, ...] | None]] = {
    (
        "ManiSkill3 FrankaBenchmark-v1, GPU simulation and rendering, rgb, 1 camera 640x480",
        "rtx4090",
    ): {"maniskill-gpu/rgb-1x640x480": None},
    (
        "ManiSkill3 FrankaBenchmark-v1, GPU simulation and rendering, rgb, 3 cameras 320x180",
        "rtx4090",
    ): {"maniskill-gpu/rgb-3x320x180": None},
    (
        "BEHAVIOR (OmniGibson / Isaac Sim), one instance, per environment step, after optimisation",
        "rtx4090d",
    ): {"behavior/omnigibson": None},
    (
        "OpenPI pi-0.5, one chunk forward on the same machine "
        "(a chunk is about 32 steps: 12-16 ms a step)",
        "rtx4090d",
    ): {"pi05-behavior/act": None},
    (
        "GR00T N1.7, backbone + action head + preprocessing, eager / compiled / TensorRT",
        "h100",
    ): {"gr00t/act": None},
    # Its `seconds` are those of pi-0; the source gives pi-0.5 with JAX as 81 ms.
    ("pi-0 / pi-0.5, batch 1, bf16", "rtx4090"): {"pi0/act": None, "pi05/act": (0.081,)},
    ("OpenVLA on LIBERO: 160 s of 170 s for 500 steps is inference", "a6000"): {
        "openvla/act": None
    },
}
NO_CORES = "host cores not stated, one assumed"
NO_MEMORY = "device memory not stated"


class Figure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the published figures."""

    stage: str
    what: str
    device: str
    source: str
    batch: tuple[int, ...]
    seconds: tuple[float, ...]
    gpu_bytes: tuple[int, ...] = ()
    cpu_bytes: tuple[int, ...] = ()
    cores: float | None = None
    note: str = ""


def figures() -> tuple[Figure, ...]:
    """Every published figure, those without stated hardware included."""
    text = files("ebrl.planner.data").joinpath("published.toml").read_text(encoding="utf-8")
    found = msgspec.convert(tomllib.loads(text)["profile"], type=tuple[Figure, ...])
    # "same file" and the like point at the entry before.
    sources: list[str] = []
    for each in found:
        same = each.source.startswith("same ")
        sources.append(f"{sources[-1]} ({each.source})" if same else each.source)
    return tuple(
        msgspec.structs.replace(each, source=source)
        for each, source in zip(found, sources, strict=True)
    )


def build() -> dict[str, Profile]:
    """The shipped profiles, by the name of their file."""
    points: dict[str, list[Point]] = {}
    for figure in figures():
        for key, seconds in KEYS.get((figure.what, figure.device), {}).items():
            name = key.partition("/")[0] + ".json"
            points.setdefault(name, []).extend(_points(figure, key, seconds or figure.seconds))
    return {
        name: profile.of(found, "published by others; see the origin of each point")
        for name, found in sorted(points.items())
    }


def _points(figure: Figure, key: str, seconds: tuple[float, ...]) -> list[Point]:
    kind = devices.find(figure.device)
    notes = [figure.note] if figure.note else []
    notes += [NO_CORES] if figure.cores is None else []
    notes += [] if figure.gpu_bytes else [NO_MEMORY]
    return [
        Point(
            stage=key,
            device=kind.name,
            sms=kind.sms,
            cores=figure.cores or 1.0,
            batch=batch,
            median_s=time,
            p95_s=time,
            bytes=figure.gpu_bytes[index] if figure.gpu_bytes else 0,
            ram_bytes=figure.cpu_bytes[index] if figure.cpu_bytes else 0,
            source="published",
            origin=f"{figure.what}; {figure.source}",
            note="; ".join(notes),
        )
        for index, (batch, time) in enumerate(zip(figure.batch, seconds, strict=True))
    ]


@cache
def everything() -> tuple[Point, ...]:
    """Every shipped point."""
    folder = files("ebrl.planner.data").joinpath("profiles")
    found = sorted(folder.iterdir(), key=lambda each: each.name)
    read = [profile.decode(each.read_bytes(), each.name) for each in found if each.is_file()]
    return profile.merge(*read).points


def shipped(program: Program) -> tuple[Point, ...]:
    """Every shipped point whose stage is the profile key of a stage of the program."""
    keys = {stage.profile_key for stage in program.stages if stage.profile_key}
    return tuple(point for point in everything() if point.stage in keys)


def write(folder: Path) -> None:
    """Write the profiles into this folder."""
    for name, built in build().items():
        (folder / name).write_bytes(profile.encode(built))


if __name__ == "__main__":
    write(Path(__file__).parent / "data" / "profiles")
