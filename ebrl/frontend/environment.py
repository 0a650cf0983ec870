"""What an environment says of itself, checked before anything is built on it.

Invariant: a `Description` is whole and finite: concrete specs, bounds of the action's own size.
"""

from __future__ import annotations

import math
from typing import NoReturn

import msgspec

from ebrl.errors import GraphError
from ebrl.frontend.place import near
from ebrl.frontend.program import ActionProgram
from ebrl.frontend.spec import DTYPES, Spec, Tensor
from ebrl.frontend.stage import Stage, dotted_name

_UNBOUNDED = (
    3.4028234663852886e38  # the largest float32: as good as no bound, and JSON can write it
)


class Description(msgspec.Struct, frozen=True, kw_only=True, tag="environment"):
    """Observation (path → tensor), action, and steps after which an episode is truncated."""

    obs: dict[str, Tensor]
    action: ActionProgram
    max_episode_steps: int | None = None

    @property
    def action_spec(self) -> Spec:
        return Spec({"": Tensor(self.action.dtype, self.action.shape)})


def ask(stage: Stage) -> Description:
    """Call `describe()` in this process. GraphError where the answer makes no sense."""
    describe = getattr(stage, "describe", None)
    if not callable(describe):
        _wrong(stage, "it has no describe()", "subclass ebrl.Simulator")
    answer = describe()
    if not (isinstance(answer, tuple) and len(answer) == 3):
        _wrong(
            stage,
            f"describe() returned {answer!r}",
            "return obs spec, action, episode limit or None",
        )
    obs, action, limit = answer
    if isinstance(obs, Tensor):
        obs = Spec({"": obs})
    if not isinstance(obs, Spec) or not obs.concrete:
        _wrong(stage, f"its observation is {obs}", "a Spec whose every dimension is a number")
    if not isinstance(action, ActionProgram):
        _wrong(stage, f"its action is {action!r}", "an ActionProgram")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        _wrong(stage, f"its episode limit is {limit!r}", "a positive number of steps, or None")
    return Description(obs=dict(obs), action=_sound(stage, action), max_episode_steps=limit)


def _sound(stage: Stage, action: ActionProgram) -> ActionProgram:
    if action.dtype not in DTYPES:
        _wrong(stage, f"its action is of dtype {action.dtype!r}", near(action.dtype, DTYPES))
    if action.kind == "discrete":
        if action.n < 1:
            _wrong(stage, f"its discrete action has n = {action.n}", "n is the number of choices")
        return action
    size = math.prod(action.shape)
    if len(action.low) != size or len(action.high) != size:
        _wrong(
            stage,
            f"its action has shape {action.shape}, so {size} numbers, but "
            f"{len(action.low)} lower and {len(action.high)} upper bounds",
            "low and high are flat, one number each",
        )
    for low, high in zip(action.low, action.high, strict=True):
        if not low <= high:
            _wrong(stage, f"its action is bounded from {low} to {high}", "low is at most high")
    return msgspec.structs.replace(
        action,
        low=tuple(max(float(each), -_UNBOUNDED) for each in action.low),
        high=tuple(min(float(each), _UNBOUNDED) for each in action.high),
    )


def _wrong(stage: Stage, what: str, hint: str) -> NoReturn:
    text = f"{dotted_name(type(stage))} does not describe an environment: {what}"
    raise GraphError("environment-invalid", text, hint=hint)
