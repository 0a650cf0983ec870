"""Building a ManiSkill task for the CPU: physics in this process, rendering only where it is seen.

"state" observations use no renderer, so they need no Vulkan; images use a GPU if there is one and
the software renderer otherwise.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ebrl.errors import GraphError

if TYPE_CHECKING:
    from ebrl.stages.simulators import ManiSkill


def make(task: ManiSkill) -> Any:
    """One environment (`num_envs=1`), with unbatched numpy actions accepted."""
    import gymnasium
    import mani_skill.envs  # noqa: F401  registers the tasks
    import torch

    images = task.obs_mode not in ("state", "state_dict", "none")
    options: dict[str, Any] = dict(task.kwargs)
    options.setdefault("sim_backend", "physx_cpu")
    options.setdefault("render_backend", _render_backend(torch.cuda.is_available()) if images else "none")
    if task.control_mode is not None:
        options["control_mode"] = task.control_mode
    if task.reward_mode is not None:
        options["reward_mode"] = task.reward_mode
    if task.max_episode_steps is not None:
        options["max_episode_steps"] = task.max_episode_steps
    sensors = dict(options.pop("sensor_configs", {}))
    if task.camera is not None:
        sensors["width"], sensors["height"] = task.camera
    if task.shader is not None:
        sensors["shader_pack"] = task.shader
    if sensors:
        options["sensor_configs"] = sensors
    try:
        return gymnasium.make(task.id, num_envs=1, obs_mode=task.obs_mode, **options)
    except gymnasium.error.UnregisteredEnv as error:
        raise GraphError("environment", f"ManiSkill knows no task {task.id!r}") from error


def _render_backend(gpu: bool) -> str:
    return "gpu" if gpu else "cpu"
