"""Clusters in YAML files: defaults, devices of one's own, and faults with line and path."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebrl.errors import PlanError
from ebrl.planner.cluster import parse
from ebrl.planner.hardware import Cluster

GOOD = """\
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
  - cores: 64
  - {device: mine, devices: 2, cores: 8, ram: 64000000000}
devices:
  - name: mine
    like: l40s
    memory: 24GB
"""


def read(tmp_path: Path, text: str) -> Cluster:
    file = tmp_path / "lab.yaml"
    file.write_text(text, encoding="utf-8")
    return parse(str(file))


def test_what_a_file_says_is_taken_and_the_rest_has_defaults(tmp_path: Path) -> None:
    big, cores, own = read(tmp_path, GOOD).nodes
    assert (big.name, big.count, big.devices, big.cores) == ("big", 2, 8, 64)
    assert big.ram_bytes == 10**12
    assert big.network_bytes_per_s == 25e9
    assert big.price_per_hour == 32.77
    assert big.numa == (tuple(range(32)), tuple(range(32, 64)))
    assert (cores.name, cores.device, cores.devices) == ("cpu64", None, 0)
    assert own.device is not None
    assert own.device.memory_bytes == 24 * 10**9
    assert own.device.sms == 142
    assert own.device.name == "mine"
    assert "like l40s" in own.device.source
    assert own.ram_bytes == 64 * 10**9


def test_a_device_may_be_declared_without_a_likeness(tmp_path: Path) -> None:
    text = """\
nodes: [{device: new, cores: 8}]
devices:
  - {name: new, sms: 20, memory: 16GB, memory_rate: 500GB/s, half_tflops: 50, fp32_tflops: 10,
     link: 16GB/s, source: its data sheet}
"""
    kind = read(tmp_path, text).nodes[0].device
    assert kind is not None
    assert (kind.sms, kind.bf16_flops, kind.link_bytes_per_s) == (20, 50e12, 16e9)
    assert kind.source == "its data sheet"
    assert kind.quotas() == (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)


@pytest.mark.parametrize(
    ("old", "new", "line", "place", "said"),
    [
        ("    cores: 64", "    cores: many", 6, "nodes[0].cores", "expected `int"),
        ("count: 2", "count: 0", 3, "nodes[0].count", ">= 1"),
        ("count: 2", "count: 1.5", 3, "nodes[0].count", "expected `int`"),
        ("price_per_hour", "prize", 9, "nodes[0].prize", "unknown field `prize`"),
        ("32.77", "-1", 9, "nodes[0].price_per_hour", ">= 0"),
        ("200Gbit/s", "fast", 8, "nodes[0].network", "not a rate"),
        ('"32-63"', '"32-62"', 10, "nodes[0].numa", "63 different cores"),
        ('"32-63"', '"31-62"', 10, "nodes[0].numa", "in 64 places"),
        ('"32-63"', '"a-b"', 10, "nodes[0].numa[1]", "not a range"),
        ("device: a100", "device: a101", 4, "nodes[0].device", "a100"),
        ("    device: a100\n", "", 4, "nodes[0].devices", "devices of which kind"),
        ("like: l40s", "like: l40z", 15, "devices[0].like", "l40s"),
        ("like: l40s", "sms: 3", 14, "devices[0]", "lacks memory_rate"),
        ("name: mine", "name: h100", 14, "devices[0].name", "name of the catalogue"),
        ("name: mine", "name: Mine!", 14, "devices[0].name", "regex"),
        ("- cores: 64", "- {}", 11, "nodes[1]", "lacks cores"),
        ("- cores: 64", "- {cores: 64, name: big}", 2, "nodes[0].name", "two classes"),
        ("ram: 1TB", "ram: 1TB\n    ram: 2TB", 7, "", "given twice"),
        ("  - cores", "\t- cores", 11, "", "cannot start any token"),
        ("nodes:", "nodes: [", 2, "", "expected"),
        ("nodes:", "nodes: []\nx:", 3, "", "expected"),
        ("devices: 8", "devices: [8]", 5, "nodes[0].devices", "got `array`"),
        ("ram: 1TB", "ram: 1 elephant", 7, "nodes[0].ram", "amount of memory"),
    ],
)
def test_a_fault_names_file_line_and_path(
    tmp_path: Path, old: str, new: str, line: int, place: str, said: str
) -> None:
    assert old in GOOD
    with pytest.raises(PlanError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    (fault,) = caught.value.diagnostics
    assert said in f"{fault.message} {fault.hint}"
    if place:
        assert fault.where == f"{tmp_path / 'lab.yaml'}:{line}: {place}"
    else:
        assert fault.where.startswith(f"{tmp_path / 'lab.yaml'}:")


@pytest.mark.parametrize("text", ["", "nodes", "[]", "3", "nodes: &a [*a]", "? [1, 2]\n: 3\n"])
def test_what_is_no_cluster_at_all_is_one_fault(tmp_path: Path, text: str) -> None:
    with pytest.raises(PlanError) as caught:
        read(tmp_path, text)
    assert len(caught.value.diagnostics) == 1


def test_tags_that_would_build_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="could not determine a constructor"):
        read(tmp_path, "nodes: !!python/object/apply:os.system ['true']\n")


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_bytes(b"nodes:\n  - cores: 4\n\xff\n")
    with pytest.raises(PlanError, match="not UTF-8") as caught:
        parse(str(file))
    assert caught.value.diagnostics[0].where.endswith(":3")
