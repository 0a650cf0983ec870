"""CartPole that starts a process of its own, as simulators with a server do."""

import subprocess

import gymnasium

import ebrl
from ebrl.stages import PPO, MLPPolicy


class WithServer(gymnasium.Wrapper):
    server = None

    def step(self, action):
        if self.server is None:
            self.server = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        return super().step(action)


class Served(ebrl.Simulator):
    def make(self):
        return WithServer(gymnasium.make("CartPole-v1"))


graph = ebrl.Graph("leaves-a-child")
sim = graph.simulate(Served(), envs=2)
act = graph.generate(MLPPolicy(hidden=(16, 16)))
ppo = graph.train(PPO(horizon=16, batch=128, epochs=2, minibatch=64), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
