"""CartPole whose updates take very long, and say when they begin."""

import os
from pathlib import Path

import ebrl
from ebrl.stages import PPO, Gymnasium, MLPPolicy


class Marked:
    def __init__(self, body):
        self._body = body

    def __getattr__(self, name):
        return getattr(self._body, name)

    def update(self, *args):
        Path(os.environ["EBRL_TEST_MARK"]).touch()
        return self._body.update(*args)


class Slow(PPO):
    def build(self, *args, **kwargs):
        return Marked(super().build(*args, **kwargs))


graph = ebrl.Graph("slow-update")
sim = graph.simulate(Gymnasium("CartPole-v1"), envs=8)
act = graph.generate(MLPPolicy(hidden=(16, 16)))
ppo = graph.train(Slow(horizon=16, batch=512, epochs=100_000, minibatch=128), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
