# An environment that cannot be made.
import ebrl
from toy import Learn, Linear, Reach


class Odd(Reach):
    def describe(self):
        raise OSError("no such mesh: cube.obj")  # wrong: probe-failed


graph = ebrl.Graph("wrong")
sim = graph.simulate(Odd(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
