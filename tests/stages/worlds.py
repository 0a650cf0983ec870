"""Small environments with the habits of real ones; each docstring says which."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv


class Walk(gymnasium.Env[Any, Any]):
    """A random walk that terminates beyond ±`width`; its reward is its position.

    With `reuse`, the same observation buffer is handed out every time and overwritten by reset.
    """

    def __init__(self, *, width: float = 2.0, reuse: bool = False) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self._width, self._reuse = width, reuse
        self._buffer: Any = np.zeros(2, np.float32)

    def _observe(self) -> np.ndarray:
        self._buffer[:] = self.position, self.time
        return self._buffer if self._reuse else self._buffer.copy()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.position, self.time = float(self.np_random.normal()), 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.last_action = action
        self.position += float(action[0]) + float(self.np_random.normal()) * 0.3
        self.time += 1
        ended = abs(self.position) > self._width
        return self._observe(), self.position, ended, False, {"success": self.position > 0}


class OneInAVector(VectorEnv[Any, Any, Any]):
    """A vector of one which resets by itself in `mode`, as Gymnasium describes it."""

    def __init__(self, env: gymnasium.Env[Any, Any], mode: AutoresetMode, limit: int) -> None:
        self.num_envs = 1
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.observation_space = spaces.Box(-np.inf, np.inf, (1, 2), np.float32)
        self.action_space = spaces.Box(-1, 1, (1, 1), np.float32)
        self._inner, self._mode, self._limit = env, mode, limit
        self._ended = False
        self._elapsed = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._ended, self._elapsed = False, 0
        obs, info = self._inner.reset(seed=seed)
        return obs[None], info

    def step(self, actions: Any) -> Any:
        if self._ended and self._mode is AutoresetMode.NEXT_STEP:
            obs, _ = self.reset()
            return obs, np.zeros(1), np.zeros(1, bool), np.zeros(1, bool), {}
        assert not self._ended, "stepped past the end"
        obs, reward, terminated, _, info = self._inner.step(actions[0])
        self._elapsed += 1
        truncated = self._elapsed == self._limit
        infos: dict[str, Any] = {"success": np.array([info["success"]])}
        if terminated or truncated:
            if self._mode is AutoresetMode.SAME_STEP:
                final = np.empty(1, object)
                final[0] = obs.copy()
                infos = {
                    "final_obs": final,
                    "_final_obs": np.ones(1, bool),
                    "final_info": infos,
                    "_final_info": np.ones(1, bool),
                }
                obs, _ = self._inner.reset()
                self._elapsed = 0
            else:
                self._ended = True
        return obs[None], np.array([reward]), np.array([terminated]), np.array([truncated]), infos

    def close(self, **_: Any) -> None:
        self._inner.close()


class Faulty(gymnasium.Env[Any, Any]):
    """Goes wrong at step 3: returns what it was told to, or raises."""

    def __init__(self, obs: Any = None, reward: Any = 0.0, error: Exception | None = None) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._obs, self._reward, self._error = obs, reward, error

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        if self.time < 3:
            return np.zeros(2, np.float32), 0.0, False, False, {}
        if self._error is not None:
            raise self._error
        obs = np.zeros(2, np.float32) if self._obs is None else self._obs
        return obs, self._reward, False, False, {}


class Nested(gymnasium.Env[Any, Any]):
    """Dict observations out of buffers that it keeps and overwrites."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {
                "agent": spaces.Dict({"qpos": spaces.Box(-9, 9, (3,), np.float32)}),
                "rgb": spaces.Box(0, 255, (4, 4, 3), np.uint8),
            }
        )
        self.action_space = spaces.Discrete(3, start=-1)
        self._qpos = np.zeros(3, np.float32)
        self._rgb = np.zeros((4, 4, 3), np.uint8)

    def _observe(self, value: int) -> Any:
        self._qpos[:] = value
        self._rgb[:] = value
        return {"agent": {"qpos": self._qpos}, "rgb": self._rgb}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.time = 0
        return self._observe(0), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        self.last_action = action
        return self._observe(self.time), 1.0, False, False, {}
