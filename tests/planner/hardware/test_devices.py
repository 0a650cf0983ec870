"""The catalogue: complete, sourced, consistent."""

from __future__ import annotations

import json
import subprocess

import msgspec
import pytest

from ebrl.errors import PlanError
from ebrl.planner import devices
from ebrl.planner.hardware import DeviceKind

PROMISED = [
    "a100",
    "a100-40",
    "a100-80",
    "a800",
    "h100",
    "h100-sxm",
    "h100-pcie",
    "h200",
    "h20",
    "b200",
    "l4",
    "l20",
    "l40",
    "l40s",
    "a6000",
    "a10",
    "v100",
    "rtx3090",
    "rtx4090",
    "rtx4090d",
    "rtx5090",
    "t4",
]


@pytest.mark.parametrize("name", PROMISED)
def test_every_promised_device_is_found(name: str) -> None:
    assert devices.find(name).sms > 0
    assert devices.find(name.upper()) == devices.find(name)


@pytest.mark.parametrize("entry", devices.entries(), ids=lambda entry: entry.name)
def test_every_figure_has_a_source(entry: devices.Entry) -> None:
    assert all(len(text) > 10 for text in msgspec.structs.asdict(entry.sources).values())
    assert entry.driver_names


@pytest.mark.parametrize("kind", devices.catalogue(), ids=lambda kind: kind.name)
def test_figures_are_of_the_right_size(kind: DeviceKind) -> None:
    assert 20 <= kind.sms <= 200
    assert 12e9 < kind.memory_bytes < 200e9
    assert 0.2e12 < kind.memory_bytes_per_s < 1e13
    assert 6e13 < kind.bf16_flops < 3e15
    assert 1.9 < kind.bf16_flops / kind.fp32_flops < 40
    assert 1e10 < kind.link_bytes_per_s < 1e12


@pytest.mark.parametrize("kind", devices.catalogue(), ids=lambda kind: kind.name)
def test_quotas_lie_on_the_grid_and_end_with_the_whole_device(kind: DeviceKind) -> None:
    *parts, whole = kind.quotas()
    assert whole == kind.sms
    assert parts[0] == kind.sm_min
    assert all(part % kind.sm_step == 0 and part < whole for part in parts)


def test_the_grid_is_that_of_the_architecture() -> None:
    assert devices.find("h100").quotas()[:2] == (8, 16)
    assert devices.find("a100").quotas()[:2] == (4, 6)
    assert devices.find("v100").partition == "mps"
    assert devices.find("t4").half == "fp16"
    assert devices.find("rtx5090").sm_step == 8


def test_names_and_aliases_are_unique() -> None:
    names = [name for entry in devices.entries() for name in (entry.name, *entry.aliases)]
    told = [name for entry in devices.entries() for name in entry.driver_names]
    assert len(set(names)) == len(names)
    assert len(set(told)) == len(told)


def test_a_node_shares_its_machine_out_evenly() -> None:
    entry = devices.entry("a100")
    assert entry.cores(8) == 128
    assert entry.cores(1) == 16
    assert entry.ram_bytes(4) == 4 * entry.ram_bytes(1)


def test_an_unknown_device_has_near_misses() -> None:
    with pytest.raises(PlanError, match="h100") as caught:
        devices.find("h10O")
    assert "did you mean" in caught.value.diagnostics[0].hint


def test_the_command_prints_the_catalogue(python: str) -> None:
    shown = subprocess.run(
        [python, "-m", "ebrl", "clusters"], capture_output=True, text=True, check=True
    ).stdout
    assert all(kind.name in shown for kind in devices.catalogue())
    assert max(len(line) for line in shown.splitlines()) <= 90
    told = subprocess.run(
        [python, "-m", "ebrl", "clusters", "--json"], capture_output=True, text=True, check=True
    ).stdout
    rows = json.loads(told)["devices"]
    assert {row["name"] for row in rows} == {kind.name for kind in devices.catalogue()}
    assert all(row["sources"]["half"] for row in rows)
