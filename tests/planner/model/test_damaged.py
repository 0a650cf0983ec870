"""Hundreds of damaged plans, made from a sound one with a fixed seed: one fault each, or sound.

A text is damaged as an editor would, a value as a program would. Whatever passes is used.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ebrl.errors import PlanError
from ebrl.planner.compile import compile
from ebrl.planner.model.request import CompileOptions, parse_pin
from ebrl.planner.plan import encode, read
from ebrl.planner.proof.verify import sound
from ebrl.planner.telling.diff import diff
from ebrl.planner.telling.explain import explain
from ebrl.planner.telling.table import cells, stage_rows, told
from tests.planner.hardware.test_fuzz import damage
from tests.planner.model import cases
from tests.planner.model.test_properties import gpu_plan

VALUES: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    7,
    1e300,
    0.5,
    "",
    "gpu",
    "local",
    True,
    [],
    {},
    [1, 0],
    10**12,
)


def on_cores() -> bytes:
    options = CompileOptions(alternatives=False, pins=(parse_pin("generate.batch=8"),))
    return encode(compile(cases.pipeline(), cases.cpus(), cases.on_cores(), options=options))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, but the stage times: they are many and alike."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, each in value.items():
            found += places(each, (*path, key)) if key != "profile" else []
    elif isinstance(value, list):
        for index, each in enumerate(value):
            found += places(each, (*path, index))
    return found


def changed(body: bytes, rng: random.Random) -> bytes:
    """One value replaced, removed or said twice."""
    value = json.loads(body)
    *way, last = rng.choice(places(value))
    parent = value
    for step in way:
        parent = parent[step]
    kind = rng.randrange(4)
    if kind == 0:
        del parent[last]
    elif kind == 1 and isinstance(parent, list):
        parent.insert(last, parent[last])
    elif kind == 2 and isinstance(parent[last], (int, float)):
        parent[last] = parent[last] * rng.choice([-1, 2, 1000]) + rng.choice([0, 1])
    else:
        parent[last] = rng.choice(VALUES)
    return json.dumps(value).encode()


def use(path: Path) -> None:
    plan = sound(read(path), str(path))
    explain(plan, marginals=False)
    assert diff(plan, plan) == ()
    assert [cells(row) for row in stage_rows(plan)]
    assert told(plan, path)


@pytest.mark.parametrize("kind", ["cores", "devices"])
def test_a_damaged_plan_is_a_fault_with_its_place_or_sound(tmp_path: Path, kind: str) -> None:
    body = on_cores() if kind == "cores" else encode(gpu_plan(1, 2))
    path = tmp_path / "plan.json"
    path.write_bytes(body)
    use(path)
    rng = random.Random(f"20250611 {kind}")
    refused = 0
    for _ in range(250):
        if rng.random() < 0.3:
            text = damage(body.decode(), rng).encode("utf-8", "surrogatepass")
        else:
            text = changed(body, rng)
        path.write_bytes(text)
        try:
            use(path)
        except PlanError as error:
            refused += 1
            (fault,) = error.diagnostics
            assert fault.code in ("plan-malformed", "plan-inconsistent")
            assert fault.where == str(path)
            assert fault.message
    assert refused > 125
