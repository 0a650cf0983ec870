"""What goes wrong, from its words."""

from __future__ import annotations

import re

import pytest

from ebrl.errors import RunError
from ebrl.planner.plan import Plan
from ebrl.runtime.emulation.cue import Injection
from ebrl.runtime.emulation.inject import injections
from tests.runtime.emulated_plans import workload


@pytest.fixture(scope="module")
def plan() -> Plan:
    return workload("pi0_metaworld")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("simulate*1.8@20s", {"kind": "drift", "factor": 1.8, "at_s": 20.0}),
        ("simulate/2*2@.5s", {"kind": "drift", "index": 2, "factor": 2.0, "at_s": 0.5}),
        ("simulate*1.5@30s+60s", {"kind": "drift", "factor": 1.5, "at_s": 30.0, "ramp_s": 60.0}),
        ("straggle:simulate*20%0.5", {"kind": "straggle", "factor": 20.0, "chance": 0.005}),
        ("crash:simulate/1@15s", {"kind": "crash", "index": 1, "at_s": 15.0}),
        ("hang:simulate@15s", {"kind": "hang", "at_s": 15.0}),
    ],
)
def test_a_word_is_understood(plan, word, meant):
    assert injections(plan, [word]) == (Injection(stage="simulate", **meant),)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("gpu3*2@20s", {"kind": "device", "device": "a100x8-0/3", "factor": 2.0, "at_s": 20.0}),
        (
            "n0/gpu7*1.5@2s+10s",
            {"kind": "device", "device": "a100x8-0/7", "factor": 1.5, "at_s": 2.0, "ramp_s": 10.0},
        ),
        ("cores-25%@20s", {"kind": "cores", "chance": 0.25, "at_s": 20.0}),
    ],
)
def test_a_word_for_hardware_is_understood(plan, word, meant):
    assert injections(plan, [word]) == (Injection(**meant),)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("simulate", "needs a factor"),
        ("simulate*1.8", "needs a time"),
        ("simulate*0@3s", "needs a factor above 0"),
        ("sim*1.8@3s", "no stage `sim`; its stages are simulate, generate, train"),
        ("simulate/99*1.8@3s", "replicas, numbered from 0"),
        ("simulate*1.8@3", "not of the form"),
        ("crash:simulate", "needs a time"),
        ("straggle:simulate*3@2s", "a percentage belongs to straggle"),
        ("simulate*1.8%3@2s", "a percentage belongs to straggle"),
        ("", "not of the form"),
        ("gpu8*2@3s", "has 8 GPUs"),
        ("n1/gpu0*2@3s", "node 1"),
        ("gpu0*0@3s", "a factor above 0"),
        ("gpu0*2", "a time"),
        ("cores-100%@3s", "between 0 and 100 %"),
    ],
)
def test_a_wrong_word_is_told_why(plan, word, told):
    with pytest.raises(RunError, match=re.escape(told)) as caught:
        injections(plan, [word])
    assert "--inject" in caught.value.diagnostics[0].where
    assert caught.value.diagnostics[0].hint
