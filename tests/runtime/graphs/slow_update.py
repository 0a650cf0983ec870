"""CartPole whose updates take very long, and say when they begin."""

import os
from pathlib import Path

import ebrl
from ebrl.stages import PPO, Gymnasium, MLPPolicy


class Slow(PPO):
    def build(self, *args, **kwargs):
        body = super().build(*args, **kwargs)
        update = body.update

        def marked(*args):
            Path(os.environ["EBRL_TEST_MARK"]).touch()
            return update(*args)

        body.update = marked
        return body


graph = ebrl.Graph("slow-update")
sim = graph.simulate(Gymnasium("CartPole-v1"), envs=8)
act = graph.generate(MLPPolicy(hidden=(16, 16)))
ppo = graph.train(Slow(horizon=16, batch=512, epochs=100_000, minibatch=128), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
