"""CartPole whose learner meets rewards that make its loss infinite, at chosen updates."""

import numpy as np

import ebrl
from ebrl.stages import PPO, Gymnasium, MLPPolicy

AT = (3, 4, 7)  # of those it is asked for; another list makes a learner that never recovers


class Stumbles:
    def __init__(self, body):
        self._body, self._asked = body, 0

    def update(self, batch, should_stop):
        self._asked += 1
        if self._asked in AT:
            batch.reward[batch.segment] = np.inf
        return self._body.update(batch, should_stop)

    def __getattr__(self, name):
        return getattr(self._body, name)


class StumblingPPO(PPO):
    def build(self, *args, **options):
        return Stumbles(super().build(*args, **options))


graph = ebrl.Graph("stumbles")
sim = graph.simulate(Gymnasium("CartPole-v1"), envs=8)
act = graph.generate(MLPPolicy(hidden=(16, 16)))
ppo = graph.train(StumblingPPO(horizon=16, batch=512, epochs=2, minibatch=128), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
