"""End-effector control on the CPU for the price of joint control.

ManiSkill's `pd_ee_*` controllers solve their inverse kinematics on a GPU with one damped
least-squares step on the Jacobian (`Kinematics.compute_ik`, "levenberg_marquardt"), but on the CPU
with up to a hundred iterations of Pinocchio, 4–5 ms a control step. This takes the GPU's formula to
the CPU:

    dq = J^T (J J^T + lambda I)^-1 (target - current),    lambda = 1e-4 as there

with J the geometric Jacobian at the end link (Buss 2004, "Introduction to inverse kinematics"),
from the same Pinocchio model in three microseconds. It differs from the iterated solution by the
curvature over one control step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ebrl.stages.protocols import Array

DAMPING = 1e-4


def install(env: Any) -> None:
    """Let every controller of this environment's robots that has kinematics solve them so."""
    for controller in _controllers(env.unwrapped.agent):
        kinematics = getattr(controller, "kinematics", None)
        if kinematics is not None and not isinstance(kinematics.compute_ik, JacobianStep):
            kinematics.compute_ik = JacobianStep(kinematics)


class JacobianStep:
    """In place of `Kinematics.compute_ik` of one robot on the CPU; same arguments and answer."""

    def __init__(self, kinematics: Any) -> None:
        self._model = kinematics.pmodel
        self._link = kinematics.end_link_idx
        self._active = kinematics.pmodel_active_joint_indices.numpy()
        self._controlled = kinematics.pmodel_controlled_joint_indices.numpy()
        self._damping = DAMPING * np.eye(6)

    def __call__(
        self,
        pose: Any,
        q0: torch.Tensor,
        is_delta_pose: bool = False,
        current_pose: Any = None,
        solver_config: Any = None,
    ) -> torch.Tensor:
        """Joint positions [1, controlled] that bring the end link from `current_pose` to `pose`."""
        del is_delta_pose, solver_config  # on the CPU controllers hand over target poses
        qpos = q0.numpy()[0][self._active]
        target, current = pose.raw_pose.numpy()[0], current_pose.raw_pose.numpy()[0]
        self._model.compute_full_jacobian(qpos)
        twist = self._model.get_link_jacobian(self._link, False)[:, self._controlled]
        # The model's Jacobian is that of the point at the base's origin: move it to the link.
        point = twist.copy()
        x, y, z = current[:3]
        point[0] += twist[4] * z - twist[5] * y
        point[1] += twist[5] * x - twist[3] * z
        point[2] += twist[3] * y - twist[4] * x
        error = np.concatenate([target[:3] - current[:3], rotation(target[3:], current[3:])])
        step = point.T @ np.linalg.solve(point @ point.T + self._damping, error)
        return torch.from_numpy((qpos[self._controlled] + step).astype(np.float32)[None])


def rotation(target: Array, current: Array) -> Array:
    """The rotation vector that turns quaternion `current` (w, x, y, z) into `target`."""
    a, b = target.astype(np.float64), current.astype(np.float64)
    w = float(a @ b)
    xyz = (
        -a[0] * b[1:]
        + b[0] * a[1:]
        - np.array(
            [a[2] * b[3] - a[3] * b[2], a[3] * b[1] - a[1] * b[3], a[1] * b[2] - a[2] * b[1]]
        )
    )
    sine = float(np.sqrt(xyz @ xyz))
    if sine < 1e-9:
        scale = 2 * float(np.sign(w or 1.0))
    else:
        scale = 2 * float(np.arctan2(sine if w >= 0 else -sine, abs(w))) / sine
    return np.asarray(xyz * scale)


def _controllers(agent: Any) -> Iterator[Any]:
    agents = getattr(agent, "agents", None) or [agent]
    waiting = [each.controller for each in agents]
    while waiting:
        controller = waiting.pop()
        inner = getattr(controller, "controllers", None)
        if inner:
            waiting += inner.values()
        else:
            yield controller
