# JSON's keys are strings.
import ebrl
from toy import Learn, Linear, Reach


class Tuned(Linear):
    def __init__(self):
        self.value = {1: "tanh"}


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Tuned())  # wrong: settings-not-plain
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
