# A stage has something else for a port.
import ebrl
from toy import Learn, Linear, Reach


class Odd(Linear):
    def ports(self):
        return {**super().ports(), "hint": "float32"}


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Odd())  # wrong: stage-broken
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
