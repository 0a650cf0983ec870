"""A sparse task for GRPO: be on the goal when the episode ends; one number is the reward."""

import gymnasium
import numpy as np

import ebrl
from ebrl.stages import GRPO, MLPPolicy


class Reach(gymnasium.Env):
    """A walk of eight steps on a line; success when it ends on the goal, seen from the start."""

    observation_space = gymnasium.spaces.Box(-20, 20, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal, self.at, self.left = int(self.np_random.integers(-3, 4)), 0, 8
        return self._seen(), {}

    def step(self, action):
        self.at += int(action) - 1
        self.left -= 1
        over = self.left == 0
        success = over and self.at == self.goal
        return self._seen(), float(success), over, False, {"success": success}

    def _seen(self):
        return np.array([self.goal - self.at, self.left], np.float32)


class Reaching(ebrl.Simulator):
    def make(self):
        return gymnasium.wrappers.TimeLimit(Reach(), 8)


graph = ebrl.Graph("reach-grpo")
sim = graph.simulate(Reaching(), envs=32)
act = graph.generate(MLPPolicy(hidden=(32, 32)))
grpo = graph.train(
    GRPO(horizon=8, batch=1024, group=16, epochs=4, minibatch=256, learning_rate=1e-2),
    max_staleness=0,
)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> grpo.transition
act.behaviour >> grpo.behaviour
grpo.weights >> act.weights
