"""Simulators as a graph declares them: which environment, never how many processes run it.

Invariant: declaring one imports no simulator; `make` does, in a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ebrl.frontend.program import ActionProgram
from ebrl.frontend.spec import Spec
from ebrl.stages.base import Simulator

if TYPE_CHECKING:
    from ebrl.stages.protocols import Environment


class Gymnasium(Simulator):
    """Any registered Gymnasium environment: `Gymnasium("CartPole-v1")`.

    `max_episode_steps` overrides the registered limit. `cast="float32"` converts floating
    observations of another width; without it they keep the dtype of the space, and an environment
    that returns another one is an error. Further keywords go to `gymnasium.make`.
    """

    imports = ("ebrl.stages.envs.adapter", "ebrl.stages.envs.gymnasium")

    def __init__(
        self,
        id: str,
        *,
        max_episode_steps: int | None = None,
        cast: Literal["float32"] | None = None,
        **kwargs: object,
    ) -> None:
        self.id = id
        self.max_episode_steps = max_episode_steps
        self.cast = cast
        self.kwargs = kwargs

    def make(self) -> Any:
        from ebrl.stages.envs.gymnasium import make

        return make(self.id, self.max_episode_steps, self.kwargs)

    def describe(self) -> tuple[Spec, ActionProgram, int | None]:
        from ebrl.stages.envs.describe import describe

        return describe(self.make(), cast=self.cast)

    def environment(self) -> Environment:
        from ebrl.stages.envs.adapter import GymnasiumEnvironment

        return GymnasiumEnvironment(self.make(), cast=self.cast, name=self.id)


class ManiSkill(Simulator):
    """A ManiSkill task on the CPU: `ManiSkill("PushCube-v1", obs="state")`.

    `obs` is ManiSkill's observation mode: "state" needs no renderer at all, "rgb" gives uint8
    images (and the robot's state beside them, unless `include_state=False`), "rgb+depth" and the
    like work too. `control_mode` and `reward_mode` are ManiSkill's; None is the task's own default.
    `camera` is the width and height in pixels of the sensor cameras. With `ends_on_success=False`
    an episode goes on after success until its limit, as in ManiSkill's own evaluations.
    `ik="jacobian"` lets the end-effector controllers ("pd_ee_delta_pos", …) solve their inverse
    kinematics as on a GPU, with one step on the Jacobian instead of a hundred iterations: a fifth
    of the time of a step.
    """

    imports = ("ebrl.stages.envs.adapter", "ebrl.stages.envs.maniskill")

    def __init__(
        self,
        id: str,
        *,
        obs: str = "state",
        control_mode: str | None = None,
        reward_mode: str | None = None,
        max_episode_steps: int | None = None,
        ends_on_success: bool = True,
        include_state: bool = True,
        ik: Literal["iterated", "jacobian"] = "iterated",
        camera: tuple[int, int] | None = None,
        shader: str | None = None,
        **kwargs: object,
    ) -> None:
        self.id = id
        self.obs_mode = obs
        self.control_mode = control_mode
        self.reward_mode = reward_mode
        self.max_episode_steps = max_episode_steps
        self.ends_on_success = ends_on_success
        self.include_state = include_state
        self.ik = ik
        self.camera = camera
        self.shader = shader
        self.kwargs = kwargs

    def make(self) -> Any:
        from ebrl.stages.envs.maniskill import make

        return make(self)

    def environment(self) -> Environment:
        from ebrl.stages.envs.adapter import GymnasiumEnvironment

        return GymnasiumEnvironment(self.make(), name=self.id)
