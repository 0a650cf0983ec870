"""The short ways through ManiSkill: the same trajectories, and any scene without eyes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ebrl.errors import GraphError
from ebrl.stages import ManiSkill
from ebrl.stages.protocols import Array

pytest.importorskip("mani_skill")
from mani_skill.agents.controllers.base_controller import BaseController
from mani_skill.utils.structs.pose import Pose

from ebrl.stages.envs import shortcuts
from tests.stages.batches import blank

pytestmark = pytest.mark.maniskill


@pytest.fixture(autouse=True)
def short() -> Iterator[None]:
    """Whatever a test did, the others go the short way."""
    yield
    shortcuts.install()


def trajectory(task: ManiSkill, steps: int) -> list[Array]:
    """Observations and rewards under actions that leave the bounds, an episode's end included."""
    world = task.environment()
    spec, action, _ = task.describe()
    views = blank(spec)
    rng = np.random.default_rng(0)
    told: list[Any] = []
    world.reset(7, views)
    for step in range(steps):
        chosen = rng.uniform(-1.2, 1.2, action.shape).astype(np.float32)
        result = world.step(chosen, views)
        told += [views[""].copy(), np.float64(result.reward)]
        if result.terminated or result.truncated:
            world.reset(step, views)
            told.append(views[""].copy())
    world.close()
    return told


@pytest.mark.parametrize(
    "task",
    [
        ManiSkill("PushCube-v1", max_episode_steps=8),
        ManiSkill("PickCube-v1", control_mode="pd_ee_delta_pose"),
        ManiSkill("PullCube-v1", control_mode="pd_joint_pos"),
        ManiSkill("MS-CartpoleBalance-v1"),
    ],
    ids=lambda task: f"{task.id} {task.control_mode}",
)
def test_a_trajectory_is_the_library_s_own_bit_for_bit(task: ManiSkill) -> None:
    short = trajectory(task, 12)
    shortcuts.uninstall()
    assert Pose.create.__func__.__module__.startswith("mani_skill")
    assert BaseController._clip_and_scale_action.__module__.startswith("mani_skill")
    for ours, theirs in zip(short, trajectory(task, 12), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("id", ["StackCube-v1", "PlugCharger-v1", "MS-CartpoleBalance-v1"])
def test_materials_made_under_another_name_are_stand_ins_too(id: str) -> None:
    world = ManiSkill(id).make()
    world.reset(seed=1)
    assert world._render_backend == "none"
    world.close()


@pytest.mark.vulkan
def test_a_task_that_looks_at_its_own_pictures_gets_a_renderer() -> None:
    world = ManiSkill("PushT-v1").make()
    world.reset(seed=1)
    assert world._render_backend != "none"
    world.close()


def test_a_task_whose_files_are_missing_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asks(*_: object, **__: object) -> None:
        raise EOFError  # what a question gets where nobody can answer

    monkeypatch.setattr("gymnasium.make", asks)
    with pytest.raises(GraphError, match="environment-assets") as caught:
        ManiSkill("PickSingleYCB-v1").make()
    assert "download_asset PickSingleYCB-v1" in str(caught.value)


def test_a_library_that_takes_other_arguments_is_left_alone() -> None:
    def other(cls: type, pose: object, *, where: object) -> None:
        del cls, pose, where

    assert not shortcuts._takes(other, "cls", "pose", "device")
