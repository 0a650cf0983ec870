"""A ManiSkill task on the CPU: physics in this process, rendering only where it is seen.

"state" observations use no renderer, so they need no Vulkan; images use a GPU if there is one and
the software renderer otherwise. A worker owns one thread: torch's tensors here have a dozen
numbers, and a second thread only waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import gymnasium
import mani_skill.envs  # noqa: F401  registers the tasks
import torch
from mani_skill.utils.registration import TimeLimitWrapper
from mani_skill.utils.wrappers import FlattenRGBDObservationWrapper

from ebrl.errors import GraphError
from ebrl.stages.envs import shortcuts
from ebrl.stages.envs.jacobian_ik import install
from ebrl.stages.envs.sightless import sightless

if TYPE_CHECKING:
    from ebrl.stages.simulators import ManiSkill

UNSEEN = frozenset({"state", "state_dict", "none"})  # modes that need no renderer
shortcuts.install()
NEVER = torch.zeros(1, dtype=torch.bool)


def make(task: ManiSkill) -> Any:
    """One environment as ManiSkill makes it (`num_envs=1`, torch tensors with a leading axis)."""
    options: dict[str, Any] = dict(task.kwargs)
    options.setdefault("sim_backend", "physx_cpu")
    for name in ("control_mode", "reward_mode", "max_episode_steps"):
        if getattr(task, name) is not None:
            options[name] = getattr(task, name)
    sensors = dict(options.pop("sensor_configs", {}))
    if task.camera is not None:
        sensors["width"], sensors["height"] = task.camera
    if task.shader is not None:
        sensors["shader_pack"] = task.shader
    if sensors:
        options["sensor_configs"] = sensors
    images = "gpu" if torch.cuda.is_available() else "cpu"
    chosen = options.pop("render_backend", None)
    backends = [chosen] if chosen else ["none", images] if task.obs_mode in UNSEEN else [images]
    try:
        made, render_backend = _built(task, options, backends)
    except gymnasium.error.UnregisteredEnv as error:
        raise GraphError(
            "environment",
            f"ManiSkill knows no task {task.id!r}",
            hint="its tasks are listed in mani_skill.utils.registration.REGISTERED_ENVS",
        ) from error
    except EOFError as error:  # it asked on the terminal whether to download them
        raise GraphError(
            "environment-assets",
            f"ManiSkill's task {task.id!r} needs files that are not on this machine",
            hint=f"download them: python -m mani_skill.utils.download_asset {task.id}",
        ) from error
    if task.ik == "jacobian":
        install(made)
    return Task(made, task, render_backend)


def _built(task: ManiSkill, options: dict[str, Any], backends: Sequence[str]) -> tuple[Any, str]:
    """The environment, and which backend renders. The few tasks that look at their own pictures
    while they build the scene need a renderer even where nobody else does."""
    for render_backend in backends:
        try:
            with _building(render_backend):
                made = gymnasium.make(
                    task.id,
                    num_envs=1,
                    obs_mode=task.obs_mode,
                    render_backend=render_backend,
                    **options,
                )
        except (AttributeError, TypeError):
            if render_backend == backends[-1]:
                raise
        else:
            return made, render_backend
    raise AssertionError("no backend")


class Task(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Runs in inference mode (a tenth of a step's time), and past the wrappers to the task itself:
    the adapter keeps the episode limit. Images come as ManiSkill's own wrapper gives them: "rgb"
    (the cameras' channels side by side), "depth" and "state".
    """

    def __init__(self, env: Any, task: ManiSkill, render_backend: str) -> None:
        core = env.unwrapped
        self._max_episode_steps = _limit(env)
        seen = {"rgb", "depth"} & set(task.obs_mode.split("+"))
        super().__init__(
            FlattenRGBDObservationWrapper(core, state=task.include_state) if seen else core
        )
        self._ends_on_success = task.ends_on_success
        self._render_backend = render_backend
        self._jacobian = task.ik == "jacobian"
        self._core: Any = core
        self._agent = core.agent

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        with torch.inference_mode(), _building(self._render_backend):
            answer = self.env.reset(seed=seed, options=options)
        if self._jacobian and self._agent is not self._core.agent:
            self._agent = self._core.agent  # the scene was built anew, and the robot with it
            install(self)
        return answer

    def step(self, action: Any) -> Any:
        with torch.inference_mode():
            obs, reward, terminated, truncated, info = self.env.step(action)
        if not self._ends_on_success:
            terminated = info.get("fail", NEVER)
        return obs, reward, terminated, truncated, info


def _building(render_backend: str) -> AbstractContextManager[None]:
    """A reset may build the scene anew, so it is done as the first time."""
    return sightless() if render_backend == "none" else nullcontext()


def _limit(env: Any) -> int | None:
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, TimeLimitWrapper):
            limit: int | None = layer._max_episode_steps
            return limit
        layer = layer.env
    return None
