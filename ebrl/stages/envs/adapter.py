"""One Gymnasium environment behind the runtime's protocol: adapted, guarded, and cheap.

Invariants, whatever the environment does by itself (autoreset at the next step, at the same step,
or not at all; reused observation buffers; a leading axis of one; torch tensors):
- `step` writes the observation after the action, the FINAL one where the episode ended; `reset`
  writes the first one of the next episode. Values are copied into the given views before the
  environment is called again, so nothing aliases its buffers.
- Nothing non-finite and nothing of another dtype or shape passes; the error names environment,
  port, episode and step.
- The environment gets the action clipped to its box; the raw one stays where the policy wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NoReturn

import numpy as np
from gymnasium.vector import VectorEnv

from ebrl.errors import RunError
from ebrl.stages.envs.describe import acted, action_program, observation_spec, observed
from ebrl.stages.envs.layers import Mode, autoreset_mode, peel
from ebrl.stages.envs.observe import RefusedError, Writer, writer
from ebrl.stages.protocols import Array, StepResult

_new = tuple.__new__


class GymnasiumEnvironment:
    """`gymnasium.Env`, or a vector of one of them, as a `protocols.Environment`.

    `name` is what errors call the environment; the worker that owns it may set a better one.
    """

    def __init__(self, env: Any, *, cast: str | None = None, name: str = "") -> None:
        spec = getattr(env, "spec", None)
        self.name = name or str(getattr(spec, "id", "") or type(env.unwrapped).__name__)
        self.episode = -1
        self.elapsed = 0
        self._running = False
        self._env = env
        self._mode: Mode = autoreset_mode(env)
        inner, self._limit = peel(env)
        self._step: Callable[[Any], tuple[Any, Any, Any, Any, Any]] = inner.step
        self._reset = inner.reset
        space, batched = observed(inner)
        self._write = writer(observation_spec(space), batched=batched, cast=cast)
        self._write_one = writer(observation_spec(space), batched=False, cast=cast)
        self._batched = batched
        self._decode = _decoder(acted(inner), batched=isinstance(inner, VectorEnv))
        # In SAME_STEP the first observation of the next episode arrives with the last step.
        self._next: dict[str, Array] | None = None
        self._cells = {
            path: (tuple(int(dim) for dim in tensor.shape), tensor.dtype)
            for path, tensor in observation_spec(space, cast).items()
        }

    def reset(self, seed: int | None, obs: Mapping[str, Array]) -> None:
        """Start an episode and write its first observation."""
        first, self._next = self._next, None
        self.episode += 1
        self.elapsed = 0
        if first is not None and seed is None:
            for path, value in first.items():
                obs[path][...] = value
        else:
            try:
                value, _ = self._reset(seed=seed)
            except Exception as error:
                raise self._failed("reset", error) from error
            try:
                self._write(value, obs)
            except RefusedError as error:
                self._refuse("obs", str(error))
        self._running = True

    def step(self, action: Array, obs: Mapping[str, Array]) -> StepResult:
        """One step; writes the observation after it (the final one if the episode ended)."""
        if not self._running:
            self._refuse("action", "the episode has ended; reset comes before the next step")
        self.elapsed += 1
        try:
            value, reward, terminated, truncated, info = self._step(self._decode(action))
        except Exception as error:
            raise self._failed("step", error) from error
        try:
            if self._batched:
                reward, terminated, truncated = reward.item(), terminated.item(), truncated.item()
            reward = float(reward)
        except (TypeError, ValueError, AttributeError):
            self._refuse("transition", f"the reward is a {type(reward).__name__}, not a number")
        if not isfinite(reward):
            self._refuse("transition", f"the reward is {reward}")
        terminated = bool(terminated)
        truncated = bool(truncated) or self.elapsed == self._limit
        write = self._write
        if terminated or truncated:
            self._running = False
            value, info, write = self._final(value, info)
        try:
            write(value, obs)
        except RefusedError as error:
            self._refuse("obs", str(error))
        success = None
        if info:
            success = info.get("success")
            if success is None:
                success = info.get("is_success")
            if success is not None:
                success = bool(success)
        # What StepResult(...) does, without its call through Python.
        return _new(StepResult, (reward, terminated, truncated, success))

    def close(self) -> None:
        self._env.close()

    def _final(self, value: Any, info: Any) -> tuple[Any, Any, Writer]:
        """The final observation, its info, and how to write it; what SAME_STEP began is kept."""
        final = info.get("final_obs", info.get("final_observation"))
        if self._mode is Mode.SAME_STEP or (self._mode is Mode.UNKNOWN and final is not None):
            if final is None:
                self._refuse("obs", "it resets in the same step, but gives no final_obs")
            self._next = {
                path: np.empty(shape, dtype) for path, (shape, dtype) in self._cells.items()
            }
            try:
                self._write(value, self._next)
            except RefusedError as error:
                self._refuse("obs", f"after its reset: {error}")
            info = info.get("final_info") or info
            if isinstance(final, np.ndarray) and final.dtype == object:
                return final[0], info, self._write_one
            return final, info, self._write
        return value, info, self._write

    def _failed(self, call: str, error: Exception) -> RunError:
        return RunError(
            "environment",
            f"{call}() raised {type(error).__name__}: {error}",
            where=self._where("action" if call == "step" else "obs"),
            hint="the fault is the environment's own; its traceback is in the worker's log",
        )

    def _refuse(self, port: str, what: str) -> NoReturn:
        raise RunError(
            "environment",
            what,
            where=self._where(port),
            hint="it is stopped here so that it cannot reach the weights",
        )

    def _where(self, port: str) -> str:
        return f"environment {self.name}, port {port}, episode {self.episode}, step {self.elapsed}"


def _decoder(space: Any, *, batched: bool) -> Callable[[Array], Any]:
    """From the stored action to what the environment takes: never a view of the slab."""
    program = action_program(space)
    if program.kind == "discrete":
        start = int(space.start)
        if batched:
            return lambda action: np.array([int(action) + start])
        return (lambda action: int(action) + start) if start else int
    shape = (1, *program.shape) if batched else program.shape
    low = np.asarray(space.low, program.dtype).reshape(shape)
    high = np.asarray(space.high, program.dtype).reshape(shape)
    maximum, minimum = np.maximum, np.minimum

    def clipped(action: Array) -> Array:
        within = maximum(action, low)
        return np.asarray(minimum(within, high, out=within))

    return clipped
