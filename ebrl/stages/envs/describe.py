"""From Gymnasium's spaces to a spec: what an environment shows, what it takes, how long it lasts.

Invariant: paths come out in the order of the space, and a space that no port can carry is refused
here, with the way around it, rather than in the middle of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from ebrl.errors import GraphError
from ebrl.frontend.program import ActionProgram
from ebrl.frontend.spec import Spec, Tensor


def describe(env: Any, cast: str | None = None) -> tuple[Spec, ActionProgram, int | None]:
    """Observation spec, action and episode limit of one environment, which is closed afterwards."""
    try:
        return (
            observation_spec(observed(env)[0], cast),
            action_program(acted(env)),
            episode_limit(env),
        )
    finally:
        env.close()


def observed(env: Any) -> tuple[spaces.Space[Any], bool]:
    """The space of one observation, and whether its arrays come with a leading axis of one.

    So they do from a vector of one environment, and from ManiSkill unless a wrapper removed it.
    """
    if isinstance(env, VectorEnv):
        return env.single_observation_space, True
    base = env.unwrapped
    single = getattr(base, "single_observation_space", None)
    space = env.observation_space
    if single is None or space == single:
        return space, False
    if space == base.observation_space:
        return single, True
    return _without_axis(space), True


def acted(env: Any) -> spaces.Space[Any]:
    """The space of one action."""
    return env.single_action_space if isinstance(env, VectorEnv) else env.action_space


def observation_spec(space: spaces.Space[Any], cast: str | None = None) -> Spec:
    """Path → tensor. `cast` replaces the dtype of floating leaves: an explicit, declared cast."""
    leaves = dict(_leaves(space, ""))
    if cast is not None:
        for path, tensor in leaves.items():
            if np.issubdtype(np.dtype(tensor.dtype), np.floating):
                leaves[path] = Tensor(cast, tensor.shape)
    return Spec(leaves)


def action_program(space: spaces.Space[Any]) -> ActionProgram:
    """A box of floats or a discrete choice. Unbounded sides become the largest finite number."""
    if isinstance(space, spaces.Discrete):
        return ActionProgram(kind="discrete", dtype="int64", n=int(space.n))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        dtype = np.dtype(space.dtype)
        most = float(np.finfo(dtype).max)
        low = np.clip(space.low.astype(np.float64), -most, most)
        high = np.clip(space.high.astype(np.float64), -most, most)
        return ActionProgram(
            kind="box",
            dtype=dtype.name,
            shape=tuple(int(dim) for dim in space.shape),
            low=tuple(low.ravel().tolist()),
            high=tuple(high.ravel().tolist()),
        )
    raise GraphError(
        "action-space",
        f"actions of {space} cannot be sampled: a box of floats or a Discrete is needed",
        hint="wrap the environment, for instance to flatten a MultiDiscrete into one Discrete",
    )


def episode_limit(env: Any) -> int | None:
    """Steps after which an episode is truncated, wherever the environment keeps the number."""
    spec = getattr(env, "spec", None)
    candidates = [getattr(spec, "max_episode_steps", None)]
    layer = env
    while layer is not None:
        inner = getattr(layer, "__dict__", {})
        candidates += [
            inner.get(name)
            for name in ("_max_episode_steps", "max_episode_steps", "max_path_length")
        ]
        layer = inner.get("env")
    limits = [int(each) for each in candidates if isinstance(each, int | np.integer) and each > 0]
    return min(limits, default=None)


def _without_axis(space: spaces.Space[Any]) -> spaces.Space[Any]:
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _without_axis(each) for name, each in space.spaces.items()})
    if isinstance(space, spaces.Box) and space.shape[:1] == (1,):
        return spaces.Box(space.low[0], space.high[0], dtype=space.dtype.type)
    raise GraphError(
        "observation-space",
        f"a wrapper gives {space} around an environment that answers with a leading axis of one",
        hint="keep the axis in every leaf of the wrapper's space, or remove it everywhere",
    )


def _leaves(space: spaces.Space[Any], path: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        named = (
            space.spaces.items()
            if isinstance(space, spaces.Dict)
            else ((str(index), each) for index, each in enumerate(space.spaces))
        )
        for name, inner in named:
            if "/" in str(name):
                raise GraphError(
                    "observation-space",
                    f"the observation key {name!r} contains '/', which separates levels",
                    hint="rename the key in a wrapper",
                )
            yield from _leaves(inner, f"{path}/{name}" if path else str(name))
    elif isinstance(space, spaces.Discrete):
        yield path, Tensor("int64")
    elif isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        shape = tuple(int(dim) for dim in space.shape)
        yield path, Tensor(np.dtype(space.dtype).name, shape)
    else:
        raise GraphError(
            "observation-space",
            f"observations of {type(space).__name__} have no fixed shape ({space})",
            hint="wrap the environment so that it gives arrays of one shape",
        )
