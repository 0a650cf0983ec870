# The cost of a firing cannot be computed.
import ebrl
from toy import Learn, Linear, Reach


class Costly(Linear):
    def work(self):
        return 1 / 0


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Costly())  # wrong: stage-broken
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
