# A setting is numpy's number, which JSON does not know.
import numpy as np

import ebrl
from toy import Learn, Linear, Reach


class Tuned(Linear):
    def __init__(self):
        self.value = np.float32(0.5)


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Tuned())  # wrong: settings-not-plain
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
