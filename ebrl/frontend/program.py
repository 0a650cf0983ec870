"""A checked graph as plain data: what the compiler reads and what the plan carries along.

Invariant: a `Program` is only ever made by `check`, so every edge is connected and typed, every
rate balanced, every buffer bounded and every dimension bound to a number.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import msgspec

from ebrl.frontend.spec import Tensor

Hardware = Literal["cpu", "gpu"]


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What one firing of a stage costs by arithmetic, for an estimate where nothing was measured.

    Per item of the batch: `flops` (16-bit tensor arithmetic), `fp32_flops` (physics, rendering),
    `activation_bytes`, and `core_seconds` of host work. Resident once a replica: `weight_bytes`
    (read `weight_reads` times per batch), `state_bytes` (optimizer and gradients, which ranks may
    share out), `scratch_bytes` (a micro-batch, a renderer, a scene). `update_bytes` is what an
    update changes, so what ranks reduce and policies fetch; 0 stands for `weight_bytes`. `kernel_s`
    is the fixed cost of one batch (launches, Python); `ram_bytes` is host memory of one replica.
    """

    flops: float = 0.0
    fp32_flops: float = 0.0
    activation_bytes: float = 0.0
    weight_bytes: float = 0.0
    weight_reads: float = 1.0
    state_bytes: float = 0.0
    scratch_bytes: float = 0.0
    update_bytes: float = 0.0
    core_seconds: float = 0.0
    kernel_s: float = 0.0
    ram_bytes: float = 0.0
    note: str = ""


class ActionProgram(msgspec.Struct, frozen=True, kw_only=True):
    """The action of one environment step. `low`, `high`: flat, of a box; `n`: of a discrete."""

    kind: Literal["box", "discrete"]
    dtype: str
    shape: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    n: int = 0
    chunk: int = 1  # actions that the policy answers at once, k

    @property
    def tensor(self) -> Tensor:
        """As stored per decision: shape `(chunk, *shape)` when k > 1, else `shape`."""
        return Tensor(self.dtype, (self.chunk, *self.shape) if self.chunk > 1 else self.shape)


class EnvironmentProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What the environments are: observation (path → tensor), action, how many may run."""

    obs: dict[str, Tensor]
    action: ActionProgram
    min_count: int
    max_count: int  # equal to min_count when the user gave a number
    max_episode_steps: int | None = None


class StageProgram(msgspec.Struct, frozen=True, kw_only=True):
    """One stage. `rate` is its firings per environment step (a fraction, written "p/q")."""

    name: str
    kind: str  # "simulate", "generate", "train", or a word of the user's
    where: str  # file:line of the declaration
    rate: str
    runs_on: tuple[Hardware, ...]
    type: str  # dotted name of the declaring class
    settings: dict[str, object] = {}
    fingerprint: str = ""  # sha256 over type and settings: the key of its profile
    items_per_firing: int = (
        1  # items of work in one firing (the train batch); one for per-item stages
    )
    spans_devices: bool = False  # may one replica be data-parallel over several devices?
    work: Work | None = None
    profile_key: str = ""  # name under which profiles know this stage; "" means `name`
    weights_bytes: int = 0  # of what a policy reads anew after an update; 0: not known

    @property
    def firings_per_env_step(self) -> Fraction:
        return Fraction(self.rate)


class EdgeProgram(msgspec.Struct, frozen=True, kw_only=True):
    """One edge, from "stage.port" to "stage.port"."""

    source: str
    target: str
    where: str
    spec: dict[str, Tensor]
    produce: str  # tokens per firing of the source, "p/q"
    consume: str  # tokens per firing of the target
    initial: int = 0  # tokens before the first firing
    capacity: int | None = None  # bound in tokens; None while the planner has still to size it
    max_staleness: int | None = None
    keep: Literal["all", "latest"] = "all"
    reuse: int = 1  # how many times a token may be consumed
    cast: bool = False  # the source's dtype is converted to that of `spec`


class TrainingProgram(msgspec.Struct, frozen=True, kw_only=True):
    """The learner's side of the contract with the data plane."""

    horizon: int  # T, decisions in one segment
    batch: int  # environment steps in one update
    max_staleness: int  # η, in policy versions
    epochs: int = 1
    minibatch: int | None = None


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A checked graph. `sha256` is the digest of the declaring file's bytes."""

    name: str
    path: str
    sha256: str
    stages: tuple[StageProgram, ...]
    edges: tuple[EdgeProgram, ...]
    environment: EnvironmentProgram | None
    training: TrainingProgram | None

    def stage(self, name: str) -> StageProgram:
        for each in self.stages:
            if each.name == name:
                return each
        raise KeyError(name)

    def of_kind(self, kind: str) -> tuple[StageProgram, ...]:
        return tuple(each for each in self.stages if each.kind == kind)
