"""Pipelines that people run today, declared so that they can be planned with nothing installed.

Simulators state their specs (`probed = False`), policies and learners what their models cost by
arithmetic. Invariant: every number has its source beside it, or is called assumed. To run one of
these pipelines, subclass the stages here and add `make`, `network` or `build`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ebrl.errors import RunError
from ebrl.frontend.program import ActionProgram, Hardware, Work
from ebrl.frontend.spec import Spec
from ebrl.stages.algorithms import PPO
from ebrl.stages.base import Policy, Simulator
from ebrl.stages.models import MODELS, Model

OPTIMIZER_BYTES = (
    16  # per trained parameter: Adam's two moments and a master copy in 32 bits, gradient
)


class DeclaredSimulator(Simulator):
    """A simulator known by its specs alone: cameras, state and a box of actions in [-1, 1]."""

    probed: ClassVar[bool] = False
    cameras: ClassVar[dict[str, tuple[int, int]]]  # name → height, width; RGB, uint8
    state: ClassVar[int]  # numbers of proprioception
    actions: ClassVar[int]

    def __init__(self, task: str, *, max_steps: int) -> None:
        self.task = task
        self.max_steps = max_steps

    def describe(self) -> tuple[Spec, ActionProgram, int | None]:
        images = {name: Spec("uint8", (*size, 3)) for name, size in self.cameras.items()}
        obs = Spec({**images, "state": Spec("float32", (self.state,))})
        low, high = (-1.0,) * self.actions, (1.0,) * self.actions
        box = ActionProgram(kind="box", dtype="float32", shape=(self.actions,), low=low, high=high)
        return obs, box, self.max_steps

    def make(self) -> Any:
        raise RunError(
            "planned-only",
            f"{type(self).__name__}({self.task!r}) is declared for planning, not to run",
            hint="subclass it with a make() that returns a gymnasium.Env, or run with --emulate",
        )


class ManiSkillGPU(DeclaredSimulator):
    """ManiSkill3 with physics and rendering on the GPU, one camera of 640×480.

    The arithmetic is fitted to the published RTX 4090 run of FrankaBenchmark-v1 (512 environments:
    0.0760 s a vector step, 17.7 GB; 4 environments: 2.0 GB), at what a kernel reaches of the 32-bit
    rate; it serves to carry that run over to other devices.
    """

    runs_on = ("gpu",)
    cameras: ClassVar = {"base_camera": (480, 640)}
    state: ClassVar = 16
    actions: ClassVar = 7

    def work(self) -> Work:
        return Work(
            fp32_flops=5.4e9,  # 0.145 ms × 82.6e12 × 0.45
            activation_bytes=30.9e6,  # (17.7 GB − 2.0 GB) / 508
            scratch_bytes=1.9e9,
            kernel_s=2.4e-3,  # what remains of the step with 4 environments
            ram_bytes=2.2e9,
            note="fitted to ManiSkill3's published RTX 4090 benchmark",
        )

    def profile_key(self) -> str:
        return "maniskill-gpu/rgb-1x640x480"


class _MuJoCo(DeclaredSimulator):
    """One MuJoCo environment a core, its cameras rendered there too (EGL, or in software)."""

    step_core_s: ClassVar[float]
    note: ClassVar[str]
    environment_bytes: ClassVar[float] = 1.2e9  # assumed: a scene, its textures and a GL context

    def work(self) -> Work:
        return Work(
            core_seconds=self.step_core_s,
            activation_bytes=self.environment_bytes,
            ram_bytes=0.4e9,  # assumed: an interpreter with numpy and MuJoCo
            note=self.note,
        )


class Libero(_MuJoCo):
    """A LIBERO suite (robosuite): agent and wrist camera, 7 actions of the end effector."""

    cameras: ClassVar = {"agentview": (256, 256), "wrist": (256, 256)}
    state: ClassVar = 8
    actions: ClassVar = 7
    step_core_s = 0.020
    note = "10 of 170 s for 500 steps are not inference (openvla issue 276): 20 ms a step"

    def profile_key(self) -> str:
        return "libero/step"


class MetaWorld(_MuJoCo):
    """A Meta-World task: one camera, 4 actions (gripper position and grip)."""

    cameras: ClassVar = {"corner": (480, 480)}
    state: ClassVar = 4
    actions: ClassVar = 4
    step_core_s = 0.010
    note = "assumed: half of LIBERO's step, for a plainer scene with one camera"

    def profile_key(self) -> str:
        return "metaworld/step"


class RoboCasa(_MuJoCo):
    """A RoboCasa kitchen, mobile Panda: three cameras, 12 actions (RLinf env/robocasa365.yaml)."""

    cameras: ClassVar = {"left": (224, 224), "wrist": (224, 224), "right": (224, 224)}
    state: ClassVar = 25
    actions: ClassVar = 12
    step_core_s = 0.040
    environment_bytes: ClassVar[float] = 2.5e9  # assumed: a kitchen holds many textured objects
    note = "assumed: twice LIBERO's step, for a kitchen with three cameras"

    def profile_key(self) -> str:
        return "robocasa/step"


class VLA(Policy):
    """A vision-language-action model of `ebrl.stages.models`, answering `chunk` actions at once."""

    runs_on: ClassVar[tuple[Hardware, ...]] = ("gpu",)

    def __init__(self, model: str, *, chunk: int) -> None:
        self.model = model
        self.chunk = chunk

    def work(self) -> Work:
        model = MODELS[self.model]
        return Work(
            flops=model.forward_flops(self.chunk),
            activation_bytes=model.activation_bytes,
            weight_bytes=2.0 * model.parameters,  # bf16
            weight_reads=model.weight_reads,
            update_bytes=2.0 * model.trained,
            kernel_s=model.launch_s,
            ram_bytes=4e9,  # assumed: torch, its libraries and a staging buffer
            note=model.source,
        )

    def profile_key(self) -> str:
        return f"{self.model}/act"


class VLAPPO(PPO):
    """PPO on a vision-language-action model.

    `batch` is in environment steps, `micro_batch` in decisions (`chunk` steps each). An update
    reads each decision once for the proximal policy and `epochs` times forwards and backwards. What
    it holds beside the model: optimizer state of the trained parameters, and the activations of
    one micro-batch.
    """

    runs_on: ClassVar[tuple[Hardware, ...]] = ("gpu",)

    def __init__(
        self,
        model: str,
        *,
        chunk: int,
        horizon: int,
        batch: int,
        micro_batch: int,
        epochs: int = 1,
        gamma: float = 0.99,
        learning_rate: float = 1e-5,
    ) -> None:
        super().__init__(
            horizon=horizon,
            batch=batch,
            epochs=epochs,
            minibatch=None,
            gamma=gamma,
            learning_rate=learning_rate,
        )
        self.model = model
        self.chunk = chunk
        self.micro_batch = micro_batch

    def work(self) -> Work:
        model: Model = MODELS[self.model]
        decision = self.epochs * model.training_flops(self.chunk) + model.scoring_flops(self.chunk)
        return Work(
            flops=decision / self.chunk,
            weight_bytes=2.0 * model.parameters,
            state_bytes=float(OPTIMIZER_BYTES * model.trained),
            scratch_bytes=self.micro_batch * model.training_activation_bytes,
            update_bytes=2.0 * model.trained,
            kernel_s=0.1,  # assumed: gathering the batch, clipping, the optimizer's step
            ram_bytes=8e9,  # assumed: torch, and a batch of images on its way to the device
            note=f"{model.training_source}; {model.source}",
        )

    def profile_key(self) -> str:
        return f"{self.model}/train"
