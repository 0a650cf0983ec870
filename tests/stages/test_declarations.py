"""Declaring a stage: light, checked, and with a fingerprint that is its settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ebrl.frontend.spec import Spec, Tensor
from ebrl.stages import PPO, CNNPolicy, Gymnasium, ManiSkill, MLPPolicy

ROOT = Path(__file__).parents[2]


def test_declaring_every_stage_imports_nothing_heavy() -> None:
    code = (
        "import sys; from ebrl.stages import *\n"
        "Gymnasium('CartPole-v1'), ManiSkill('PushCube-v1'), MLPPolicy(), CNNPolicy(), PPO()\n"
        "heavy = {'torch', 'gymnasium', 'mani_skill', 'sapien', 'ray'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("policy", "spec", "why"),
    [
        (MLPPolicy(), Spec("float32", (4,)), None),
        (MLPPolicy(), Spec({"a": Spec("float32"), "b": Spec("float32", (3,))}), None),
        (MLPPolicy(), Spec("float64", (4,)), 'cast="float32"'),
        (MLPPolicy(), Spec("uint8", (64, 64, 3)), "use CNNPolicy"),
        (MLPPolicy(), Spec("int64"), "not float32"),
        (CNNPolicy(), Spec("uint8", (64, 64, 3)), None),
        (
            CNNPolicy(),
            Spec({"rgb": Tensor("uint8", (64, 64, 3)), "s": Tensor("float32", (9,))}),
            None,
        ),
        (CNNPolicy(), Spec("float32", (4,)), "use MLPPolicy"),
        (CNNPolicy(), Spec("uint8", (16, 64, 3)), "smaller than 36"),
        (
            CNNPolicy(),
            Spec({"rgb": Tensor("uint8", (64, 64, 3)), "d": Tensor("int16", (64, 64, 1))}),
            "int16",
        ),
    ],
)
def test_a_policy_says_which_observations_it_takes(
    policy: Any, spec: Spec, why: str | None
) -> None:
    told = policy.accepts("obs", spec)
    assert (told is None) if why is None else (told is not None and why in told)
    assert policy.accepts("weights", spec) is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Gymnasium("CartPole-v1"), Gymnasium("CartPole-v1", max_episode_steps=9)),
        (ManiSkill("PushCube-v1"), ManiSkill("PushCube-v1", obs="rgb")),
        (MLPPolicy(), MLPPolicy(hidden=(64,))),
        (CNNPolicy(), CNNPolicy(features=64)),
        (PPO(), PPO(gamma=0.9)),
    ],
)
def test_a_fingerprint_is_of_the_settings(a: Any, b: Any) -> None:
    assert a.fingerprint() != b.fingerprint()
    assert a.fingerprint() == type(a)(**_given(a)).fingerprint()


def _given(stage: Any) -> dict[str, Any]:
    if isinstance(stage, Gymnasium | ManiSkill):
        return {"id": stage.id}
    return {}
