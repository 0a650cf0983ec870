# A policy counts its layers before they are there.
import ebrl
from toy import Learn, Linear, Reach


class Lazy(Linear):
    def settings(self):
        return {"layers": len(self.layers)}


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Lazy())  # wrong: stage-broken
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
