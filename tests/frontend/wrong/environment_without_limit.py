# Two things where three are expected.
import ebrl
from toy import Learn, Linear, Reach


class Odd(Reach):
    def describe(self):
        return super().describe()[:2]


graph = ebrl.Graph("wrong")
sim = graph.simulate(Odd(), envs=8)  # wrong: environment-invalid
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
