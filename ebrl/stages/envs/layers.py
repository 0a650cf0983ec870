"""What surrounds an environment: its autoreset mode, and the wrappers whose work the adapter does.

A wrapper costs half a microsecond a step, and the adapter counts steps and orders calls itself, so
Gymnasium's own outermost ones are peeled off; a wrapper of the user's is never touched.
"""

from __future__ import annotations

import enum
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import Autoreset, OrderEnforcing, PassiveEnvChecker, TimeLimit

from ebrl.errors import GraphError
from ebrl.stages.envs.describe import episode_limit


class Mode(enum.Enum):
    """When an environment resets itself."""

    DISABLED = "disabled"
    NEXT_STEP = "next step"
    SAME_STEP = "same step"
    UNKNOWN = "unknown"  # not declared: told by a final_obs beside the last step


_MODES = {
    AutoresetMode.DISABLED: Mode.DISABLED,
    AutoresetMode.NEXT_STEP: Mode.NEXT_STEP,
    AutoresetMode.SAME_STEP: Mode.SAME_STEP,
}


def autoreset_mode(env: Any) -> Mode:
    """From the metadata of a vector environment or the wrappers of a single one."""
    if isinstance(env, SyncVectorEnv) and env.num_envs == 1:
        return autoreset_mode(env.envs[0])
    declared = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    if declared in _MODES:
        return _MODES[declared]
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, Autoreset):
            return Mode.NEXT_STEP
        layer = layer.env
    return Mode.UNKNOWN


def peel(env: Any) -> tuple[Any, int | None]:
    """The environment to drive, and the episode limit that the adapter then enforces.

    An Autoreset wrapper is peeled too: the adapter asks for every reset itself. A SyncVectorEnv of
    one is opened, because in SAME_STEP it hands out a final observation that an environment which
    reuses its buffer has already overwritten.
    """
    limit = episode_limit(env)
    if isinstance(env, VectorEnv) and env.num_envs != 1:
        raise GraphError(
            "environment",
            f"make() returned a vector of {env.num_envs} environments",
            hint="return one environment; how many of them run is the graph's `envs=`",
        )
    if isinstance(env, SyncVectorEnv):
        return peel(env.envs[0])
    while type(env) in (TimeLimit, OrderEnforcing, PassiveEnvChecker, Autoreset):
        env = env.env
    return env, limit
