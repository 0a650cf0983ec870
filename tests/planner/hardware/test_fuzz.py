"""Hundreds of damaged inputs, made from sound ones with a fixed seed: one fault each, or sound.

A fault is one PlanError with one diagnostic that names its place; anything else that is raised
fails the test.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ebrl.errors import PlanError
from ebrl.planner import cluster_file, profile
from ebrl.planner.cluster import parse
from ebrl.planner.profile import Point

CLUSTERS = [
    "cpu16",
    "2*(cpu64)",
    "a100x8",
    "4*(h100x8)",
    "2*(a100x8)+1*(l40sx4)+3*(cpu64)",
    "h200x1/cores=16",
    "128*(rtx4090x8/cores=96/ram=512GB)+h100-pciex4",
    "local/cores=1",
]
FILE = """\
nodes:
  - name: big
    count: 2
    device: a100
    devices: 8
    cores: 64
    ram: 1TB
    network: 200Gbit/s
    price_per_hour: 32.77
    numa: ["0-31", "32-63"]
  - {device: mine, devices: 2, cores: 8, ram: 64GB}
devices:
  - {name: mine, like: l40s, memory: 24GB, half_tflops: 99.5}
"""
PROFILE = profile.encode(
    profile.of(
        Point(
            stage="act",
            device="a100",
            sms=sms,
            cores=1.0,
            batch=batch,
            median_s=0.125,
            p95_s=0.25,
            bytes=2**30,
            source="measured",
            origin="a machine",
        )
        for sms in (54, 108)
        for batch in (1, 8)
    )
).decode()
# What people and editors put where it does not belong.
SPLINTERS = [
    *"+*()/=x-_.:,;{}[]\"'\\#&!|>%@` \t\n\0é²",
    *("0", "-1", "1e999", "NaN", "null", "true", "9" * 30),
    *("a100", "cpu", "local", "GB", "<<: *a", "  "),
]


def damage(text: str, rng: random.Random) -> str:
    """One to three cuts, copies, swaps or splinters."""
    for _ in range(rng.randint(1, 3)):
        at, to = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
        short = min(to, at + 8)
        kind = rng.randrange(6)
        if kind == 0:  # cut out a little
            text = text[:at] + text[short:]
        elif kind == 1:  # cut off the rest
            text = text[:to] if rng.random() < 0.3 else text[:at] + text[short:]
        elif kind == 2:  # say a piece twice
            text = text[:at] + text[at:short] * 2 + text[short:]
        elif kind == 3 and at < len(text):  # another character
            text = text[:at] + rng.choice(SPLINTERS)[0] + text[at + 1 :]
        elif kind == 4 and text.count("\n") > 1:  # exchange two lines
            lines = text.split("\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
            text = "\n".join(lines)
        else:
            text = text[:at] + rng.choice(SPLINTERS) + text[at:]
    return text


def faults(read: Callable[[str], object], texts: list[str]) -> int:
    """How many texts are refused, each with one diagnostic: a code, a message and a place."""
    refused = 0
    for text in texts:
        try:
            read(text)
        except PlanError as error:
            refused += 1
            found = error.diagnostics
            sound = len(found) == 1 and all((found[0].code, found[0].message, found[0].where))
            if not sound:
                pytest.fail(f"{text!r}: {found}")
    return refused


def read_file(text: str) -> object:
    return cluster_file.decode(text.encode("utf-8", "surrogatepass"), Path("lab.yaml"))


def read_profile(text: str) -> object:
    return profile.decode(text.encode("utf-8", "surrogatepass"), "p.json")


@pytest.mark.parametrize(
    ("name", "sound", "read", "count"),
    [
        ("cluster texts", CLUSTERS, parse, 400),
        ("cluster files", [FILE], read_file, 300),
        ("profiles", [PROFILE], read_profile, 300),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_inputs_are_one_fault_each(
    name: str, sound: list[str], read: Callable[[str], object], count: int
) -> None:
    assert faults(read, sound) == 0
    rng = random.Random(f"20250611 {name}")
    damaged = [damage(rng.choice(sound), rng) for _ in range(count)]
    assert faults(read, damaged) > count // 2


@pytest.mark.parametrize(
    ("sound", "read"), [(FILE, read_file), (PROFILE, read_profile)], ids=["file", "profile"]
)
def test_a_file_that_ends_anywhere_is_a_fault_or_sound(
    sound: str, read: Callable[[str], object]
) -> None:
    ends = [sound[:end] for end in range(0, len(sound), 7)]
    assert faults(read, ends) > 0
