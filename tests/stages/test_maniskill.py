"""The real simulator: what it shows, when its episodes end; the short ways change nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebrl.errors import GraphError
from ebrl.stages import ManiSkill
from ebrl.stages.protocols import Environment

pytest.importorskip("mani_skill")
import torch
from mani_skill.utils.structs import Pose

from ebrl.stages.envs import shortcuts
from ebrl.stages.envs.adapter import GymnasiumEnvironment
from ebrl.stages.envs.describe import observation_spec, observed
from ebrl.stages.envs.jacobian_ik import JacobianStep, rotation
from tests.stages.batches import blank

pytestmark = pytest.mark.maniskill
LIMIT = 12


@pytest.fixture(scope="module")
def task() -> ManiSkill:
    return ManiSkill("PushCube-v1", max_episode_steps=LIMIT)


def play(world: Environment, size: int, actions: int, seed: int, steps: int) -> list[Any]:
    views = {"": np.zeros(size, np.float32)}
    rng = np.random.default_rng(seed)
    world.reset(seed, views)
    told: list[Any] = [views[""].copy()]
    for _ in range(steps):
        result = world.step(rng.uniform(-1.5, 1.5, actions).astype(np.float32), views)
        told.append((views[""].copy(), result))
        if result.terminated or result.truncated:
            break
    return told


def test_a_state_task_describes_itself(task: ManiSkill) -> None:
    spec, action, limit = task.describe()
    assert str(spec) == "float32[35]"
    assert (action.kind, action.shape, action.dtype, limit) == ("box", (8,), "float32", LIMIT)
    assert action.low == (-1.0,) * 8


def test_an_episode_is_the_one_that_maniskill_itself_plays(task: ManiSkill) -> None:
    import gymnasium
    import mani_skill.envs  # noqa: F401

    world = task.environment()
    told = play(world, 35, 8, 3, 50)
    world.close()
    shortcuts.uninstall()
    raw = gymnasium.make(
        "PushCube-v1",
        obs_mode="state",
        sim_backend="physx_cpu",
        render_backend="none",
        max_episode_steps=LIMIT,
    )
    obs, _ = raw.reset(seed=3)
    np.testing.assert_array_equal(told[0], obs[0])
    rng = np.random.default_rng(3)
    for views, result in told[1:]:
        action = rng.uniform(-1.5, 1.5, 8).astype(np.float32)
        obs, reward, terminated, truncated, info = raw.step(action.clip(-1, 1))
        np.testing.assert_array_equal(views, obs[0])
        assert result == (
            float(reward),
            bool(terminated),
            bool(truncated),
            bool(info["success"]),
        )
    assert told[-1][1].truncated
    assert len(told) == LIMIT + 1
    raw.close()


def test_success_ends_an_episode_or_not_as_declared() -> None:
    lengths = {}
    for ends in (True, False):
        world: Any = ManiSkill(
            "PushCube-v1", max_episode_steps=4, ends_on_success=ends
        ).environment()
        world._env.unwrapped.evaluate = lambda: {"success": torch.ones(1, dtype=torch.bool)}
        told = play(world, 35, 8, 0, 9)
        assert all(result.success for _, result in told[1:])
        lengths[ends] = len(told) - 1, told[-1][1].terminated, told[-1][1].truncated
        world.close()
    assert lengths == {True: (1, True, False), False: (4, False, True)}


def test_one_step_on_the_jacobian_reaches_the_pose_that_was_asked_for() -> None:
    made = ManiSkill("PushCube-v1", control_mode="pd_ee_delta_pose", ik="jacobian").make()
    made.reset(seed=0)
    controller = made.unwrapped.agent.controller.controllers["arm"]
    solver, model = controller.kinematics.compute_ik, controller.kinematics.pmodel
    link = controller.kinematics.end_link_idx
    assert isinstance(solver, JacobianStep)
    start = made.unwrapped.agent.robot.get_qpos()

    def hand(qpos: Any) -> torch.Tensor:
        model.compute_forward_kinematics(qpos.numpy()[0])
        pose = model.get_link_pose(link)
        return torch.from_numpy(np.concatenate([pose.p, pose.q]))[None]

    rng = np.random.default_rng(1)
    for _ in range(20):
        q0 = start + torch.from_numpy(rng.normal(0, 0.2, start.shape).astype(np.float32))
        goal = q0 + torch.from_numpy(rng.normal(0, 0.03, start.shape).astype(np.float32))
        now, asked = Pose.create(hand(q0)), Pose.create(hand(goal))
        answer = q0.clone()
        answer[:, :7] = solver(pose=asked, q0=q0, current_pose=now)
        before = np.linalg.norm(asked.p - now.p)
        after = np.linalg.norm(hand(answer)[:, :3] - asked.p)
        assert after < 0.1 * before + 5e-4
        turn = rotation(asked.q[0].numpy(), now.q[0].numpy())
        left = rotation(asked.q[0].numpy(), hand(answer)[0, 3:].numpy())
        assert np.linalg.norm(left) < 0.1 * np.linalg.norm(turn) + 2e-3
    made.close()


def test_a_rotation_vector_turns_one_quaternion_into_the_other() -> None:
    identity = np.array([1.0, 0, 0, 0])
    for angle in (1e-6, 0.3, 3.0):
        turned = np.array([np.cos(angle / 2), 0, np.sin(angle / 2), 0])
        np.testing.assert_allclose(rotation(turned, identity), [0, angle, 0], atol=1e-9)
        np.testing.assert_allclose(rotation(-turned, identity), [0, angle, 0], atol=1e-9)
        np.testing.assert_allclose(rotation(identity, turned), [0, -angle, 0], atol=1e-9)


def test_state_needs_no_renderer_at_all() -> None:
    """With no Vulkan driver to be found, state observations work all the same."""
    code = (
        "import numpy as np; from ebrl.stages import ManiSkill\n"
        "w = ManiSkill('PushCube-v1').environment(); v = {'': np.zeros(35, 'f4')}\n"
        "w.reset(0, v); print(w.step(np.zeros(8, 'f4'), v).truncated, np.abs(v['']).sum() > 0)"
    )
    environment = dict(
        os.environ, VK_ICD_FILENAMES="/nowhere.json", VK_DRIVER_FILES="/nowhere.json"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["False", "True"], done.stderr


@pytest.mark.vulkan
def test_pictures_are_uint8_beside_the_state() -> None:
    made = ManiSkill("PushCube-v1", obs="rgb", camera=(48, 40)).make()
    spec = observation_spec(observed(made)[0])
    assert {path: str(t) for path, t in spec.items()} == {
        "state": "float32[25]",
        "rgb": "uint8[40, 48, 3]",
    }
    world, first, after = GymnasiumEnvironment(made), blank(spec), blank(spec)
    world.reset(0, first)
    for _ in range(3):
        world.step(np.ones(8, np.float32), after)
    assert first["rgb"].std() > 10, "something is seen"
    assert (first["rgb"] != after["rgb"]).mean() > 0.01, "and it moved"
    world.close()


def test_an_unknown_task_is_a_graph_error() -> None:
    with pytest.raises(GraphError, match="NoSuchTask-v1"):
        ManiSkill("NoSuchTask-v1").make()
