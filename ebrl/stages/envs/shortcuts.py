"""Three ways through ManiSkill on the CPU made shorter: the same answers in a fifth less time.

ManiSkill's structures are written for thousands of environments in one tensor. With one
environment on the CPU their cost is in the way they are called: a pose is read through two lists,
six conversions and four tensors, a dozen times a step; a joint's target through three setters; the
bounds of the action space are added and halved anew for every action. Here each is done directly.

Invariants: the answers are the same, bit for bit (a test compares whole trajectories); whatever is
not one environment on the CPU goes the library's own way; a version of the library whose functions
take other arguments is left as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sapien
import torch
from mani_skill.agents.controllers.base_controller import BaseController
from mani_skill.utils.structs.articulation import Articulation
from mani_skill.utils.structs.pose import Pose

CPU = torch.device("cpu")
_library_create = Pose.create.__func__
_library_targets = Articulation.set_joint_drive_targets


def install() -> None:
    """For all environments of this process; once is enough."""
    if _takes(_library_create, "cls", "pose", "device"):
        Pose.create = classmethod(_create)
    if _takes(_library_targets, "self", "targets", "joints", "joint_indices"):
        Articulation.set_joint_drive_targets = _targets
    if _takes(BaseController._clip_and_scale_action, "self", "action"):
        BaseController._clip_and_scale_action = _scale


def uninstall() -> None:
    """The library as it was."""
    Pose.create = classmethod(_library_create)
    Articulation.set_joint_drive_targets = _library_targets
    BaseController._clip_and_scale_action = _library_scale


def _takes(function: Callable[..., Any], *names: str) -> bool:
    return tuple(inspect.signature(function).parameters) == names


def _create(cls: type[Any], pose: Any, device: Any = None) -> Any:
    """`Pose.create`: of the one SAPIEN pose of an actor or a link on the CPU, in one copy."""
    single = type(pose) is list and len(pose) == 1 and type(pose[0]) is sapien.Pose
    if not single or (device is not None and device != CPU):
        return _library_create(cls, pose, device)
    raw = np.empty((1, 7), np.float32)
    raw[0, :3], raw[0, 3:] = pose[0].p, pose[0].q
    return cls(raw_pose=torch.from_numpy(raw))


def _targets(
    self: Any, targets: Any, joints: Sequence[Any] | None = None, joint_indices: Any = None
) -> None:
    """`Articulation.set_joint_drive_targets`: float32 targets [1, joints], straight to SAPIEN."""
    if (
        joints is None
        or self.scene.gpu_sim_enabled
        or not isinstance(targets, torch.Tensor)
        or targets.dtype != torch.float32
    ):
        _library_targets(self, targets, joints, joint_indices)
        return
    for joint, target in zip(joints, targets[0].numpy().reshape(-1, 1), strict=False):
        joint._objs[0].drive_target = target


def _scale(self: Any, action: Any) -> Any:
    """`BaseController._clip_and_scale_action`: middle and half width of the bounds, kept."""
    low = self.action_space_low
    kept = self.__dict__.get("_ebrl_bounds")
    if kept is None or kept[0] is not low:
        high = self.action_space_high
        kept = self._ebrl_bounds = (low, 0.5 * (high + low), 0.5 * (high - low))
    return kept[1] + kept[2] * torch.clip(action, -1, 1)


_library_scale = BaseController._clip_and_scale_action
