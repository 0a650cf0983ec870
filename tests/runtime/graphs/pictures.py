"""A small real pipeline on pictures: a bright column to be kept away from the right edge."""

import gymnasium
import numpy as np

import ebrl
from ebrl.stages import PPO, CNNPolicy, Simulator

HEIGHT, WIDTH = 36, 40


class Column(gymnasium.Env):
    """Actions move the column left or right; each picture is a new array."""

    observation_space = gymnasium.spaces.Box(0, 255, (HEIGHT, WIDTH, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.left = WIDTH // 2, 30
        return self._picture(), {}

    def step(self, action):
        self.at += 1 if action else -1
        self.left -= 1
        out = not 0 < self.at < WIDTH - 1
        return self._picture(), 1.0 - self.at / WIDTH, out, self.left == 0, {}

    def _picture(self):
        picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        picture[:, self.at] = 255
        return picture


class Pictures(Simulator):
    def make(self):
        return Column()


graph = ebrl.Graph("pictures")
sim = graph.simulate(Pictures(), envs=4)
act = graph.generate(CNNPolicy(channels=(8, 8, 8), features=16))
ppo = graph.train(PPO(horizon=8, batch=128, epochs=2, minibatch=32), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
