"""A running Ray cluster as hardware, from what `ray.nodes()` lists."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from ebrl.errors import PlanError
from ebrl.planner import cluster_ray
from ebrl.planner.cluster import parse


def node(alive: bool = True, **resources: float) -> dict[str, Any]:
    named = {key.replace("__", ":"): value for key, value in resources.items()}
    return {"Alive": alive, "NodeManagerHostname": "node-a", "Resources": named}


def gpu(kind: str = "A100-80G", count: float = 8.0) -> dict[str, Any]:
    listed = node(CPU=128.0, GPU=count, memory=9e11, object_store_memory=1e11)
    listed["Resources"][f"accelerator_type:{kind}"] = 1.0
    return listed


def test_equal_nodes_are_counted_and_dead_ones_are_not() -> None:
    found = cluster_ray.of([gpu(), gpu(), node(CPU=64.0, memory=2e11), node(alive=False, CPU=1.0)])
    assert [(each.name, each.count, each.cores, each.devices) for each in found.nodes] == [
        ("a100x8", 2, 128, 8),
        ("cpu64", 1, 64, 0),
    ]
    assert found.nodes[0].ram_bytes == 10**12


def test_the_order_in_which_ray_lists_its_nodes_does_not_matter() -> None:
    listed = [gpu(), node(CPU=64.0), gpu("H100", 4.0)]
    assert cluster_ray.of(listed).digest() == cluster_ray.of(listed[::-1]).digest()


def test_an_accelerator_outside_the_catalogue_is_named() -> None:
    with pytest.raises(PlanError, match="TPU-V9".lower()):
        cluster_ray.of([gpu("TPU-V9")])


def test_a_node_without_cores_is_named() -> None:
    with pytest.raises(PlanError, match="no CPU") as caught:
        cluster_ray.of([node(GPU=1.0)])
    assert "node-a" in caught.value.diagnostics[0].where


def fake_ray(monkeypatch: pytest.MonkeyPatch, **parts: Any) -> types.ModuleType:
    module = types.ModuleType("ray")
    for name, value in {"is_initialized": lambda: False, **parts}.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


def test_where_no_ray_runs_the_fault_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.")

    fake_ray(monkeypatch, init=init)
    with pytest.raises(PlanError, match="no running Ray cluster") as caught:
        parse("ray")
    assert "ray start --head" in caught.value.diagnostics[0].hint


def test_where_ray_is_not_installed_the_fault_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PlanError, match="not installed"):
        parse("ray")


def test_a_session_that_was_open_before_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(**_: Any) -> None:
        raise AssertionError

    fake_ray(
        monkeypatch,
        init=forbidden,
        shutdown=forbidden,
        is_initialized=lambda: True,
        nodes=lambda: [node(CPU=4.0, memory=1e10)],
    )
    assert parse("ray").nodes[0].cores == 4
