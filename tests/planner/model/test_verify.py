"""A changed plan is caught: `verify` finds what the compiler would never write."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import msgspec
import pytest

from ebrl.errors import PlanError
from ebrl.planner import profile
from ebrl.planner.compile import compile
from ebrl.planner.model.request import CompileOptions, parse_pin
from ebrl.planner.plan import Plan, encode, read
from ebrl.planner.proof.verify import verify
from tests.planner.model import cases
from tests.planner.model.test_properties import gpu_plan

replace = msgspec.structs.replace


@functools.cache
def on_cores() -> Plan:
    return compile(
        cases.pipeline(envs=(8, 64)),
        cases.cpus(2, 16),
        cases.on_cores(),
        options=CompileOptions(pins=(parse_pin("generate.batch=8"),), alternatives=False),
    )


@functools.cache
def on_devices() -> Plan:
    return gpu_plan(1, 3)


def changed(plan: Plan, name: str, **fields: object) -> Plan:
    """The plan with the first replica of a stage changed."""
    stages = []
    for stage in plan.stages:
        if stage.name == name:
            first = replace(stage.replicas[0], **fields)
            stage = replace(stage, replicas=(first, *stage.replicas[1:]))  # noqa: PLW2901
        stages.append(stage)
    return replace(plan, stages=tuple(stages))


def codes(plan: Plan) -> set[str]:
    return {fault.code for fault in verify(plan)}


@pytest.mark.parametrize(
    ("stage", "fields", "code"),
    [
        ("simulate", {"cores": 40.0}, "cores"),
        ("simulate", {"core_set": (0, 99)}, "core-set"),
        ("simulate", {"core_set": ()}, "core-set"),
        ("simulate", {"node": "cpu16-7"}, "node"),
        ("simulate", {"environments": (0, 1)}, "environments"),
        ("simulate", {"busy": 0.01}, "pace"),
        ("simulate", {"busy": float("nan")}, "busy"),
        ("generate", {"batch": 64}, "pin"),
        ("generate", {"batch": 0}, "batch"),
        ("generate", {"environments": None}, "environments"),
        ("train", {"share": 7}, "shares"),
        ("train", {"rated_cores": 0.0}, "cores"),
        ("train", {"busy": 1.5}, "busy"),
        ("train", {"device": 0}, "no-device"),
    ],
)
def test_a_changed_replica_on_cores_is_found(stage, fields, code):
    assert code in codes(changed(on_cores(), stage, **fields))


@pytest.mark.parametrize(
    ("stage", "fields", "code"),
    [
        ("generate", {"sms": 5}, "sms"),
        ("generate", {"device": 9}, "no-device"),
        ("generate", {"batch": 100_000}, "memory"),
        ("train", {"busy": 1.2}, "busy"),
    ],
)
def test_a_changed_replica_on_a_device_is_found(stage, fields, code):
    assert code in codes(changed(on_devices(), stage, **fields))


def test_two_stages_on_the_same_sms_of_a_device_are_found():
    plan = on_devices()
    busy = [s.replicas[0] for s in plan.stages if s.replicas[0].device is not None]
    place = {"device": busy[0].device, "sms": 7, "sm_start": 0, "node": busy[0].node}
    for stage in [s.name for s in plan.stages if s.replicas[0].device is not None][:2]:
        plan = changed(plan, stage, **place)
    assert codes(plan) & {"sms", "interference"}


@pytest.mark.parametrize(
    ("field", "code"),
    [("program_sha256", "program-hash"), ("cluster_sha256", "cluster-hash"),
     ("profile_sha256", "profile-hash")],
)  # fmt: skip
def test_a_wrong_hash_is_found(field, code):
    assert codes(replace(on_cores(), **{field: "0" * 63 + "1"})) == {code}


def test_a_prediction_beyond_what_stages_reach_is_found():
    plan = on_cores()
    said = replace(
        plan.prediction,
        throughput_env_steps_per_s=2 * plan.prediction.throughput_env_steps_per_s,
        bound_env_steps_per_s=1e9,
    )
    assert codes(replace(plan, prediction=said)) == {"pace"}


def test_buffers_of_another_size_are_found():
    plan = on_cores()
    assert codes(replace(plan, buffers=replace(plan.buffers, slab_bytes=1))) == {"buffers"}


def test_times_are_taken_from_the_points_not_from_what_the_plan_says_of_them():
    plan = on_cores()
    slower = tuple(replace(point, median_s=2 * point.median_s) for point in plan.profile)
    assert codes(replace(plan, profile=slower)) == {"profile-hash"}
    hashed = replace(plan, profile=slower, profile_sha256=profile.digest(slower))
    assert codes(hashed) == {"pace"}


def test_plans_cut_short_or_scrambled_are_refused_with_their_place(tmp_path):
    data = encode(on_cores())
    chance = random.Random(0)
    path = tmp_path / "plan.json"
    refused = 0
    for _ in range(150):
        text = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text))
            kind = chance.choice(["cut", "flip", "drop", "word"])
            if kind == "cut":
                text = text[:at]
            elif kind == "flip":
                text[at] = chance.randrange(256)
            elif kind == "drop":
                del text[at : at + chance.randint(1, 40)]
            else:
                text[at:at] = chance.choice(
                    [b"null", b"NaN", b'"', b"{}", b"[", b"-1e999", b"\xff"]
                )
            if not text:
                break
        path.write_bytes(bytes(text))
        error = refusal(path)
        refused += error is not None
        assert error is None or error.diagnostics[0].where == str(path)
    assert refused > 100


def refusal(path: Path) -> PlanError | None:
    """Why a plan cannot be read; one that can is verified, which may find faults but not fail."""
    try:
        verify(read(path))
    except PlanError as error:
        return error
    return None


def test_fields_changed_by_type_are_refused_or_found(tmp_path):
    """Every number of a plan replaced, one at a time, by another."""
    base = msgspec.to_builtins(on_cores())
    chance = random.Random(1)
    places: list[tuple[object, ...]] = []

    def walk(value: object, path: tuple[object, ...]) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                walk(each, (*path, key))
        elif isinstance(value, (list, tuple)):
            for index, each in enumerate(value):
                walk(each, (*path, index))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            places.append(path)

    walk({key: base[key] for key in ("stages", "environments", "buffers", "prediction")}, ())
    for place in chance.sample(places, 60):
        tree = msgspec.json.decode(msgspec.json.encode(base))
        spot = tree
        for step in place[:-1]:
            spot = spot[step]
        spot[place[-1]] = chance.choice([-1, 0, 10**9, 0.5, None, "x", []])
        path = tmp_path / "plan.json"
        path.write_bytes(msgspec.json.encode(tree))
        error = refusal(path)
        assert error is None or error.code == "plan-malformed"
