# The policy fails while it is asked what it takes.
import ebrl
from toy import Learn, Linear, Reach


class Eyes(Linear):
    def accepts(self, port, spec):
        return None if spec["rgb"] else "blind"


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Eyes())  # wrong: stage-broken
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
