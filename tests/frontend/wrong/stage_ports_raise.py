# A stage cannot say which ports it has.
import ebrl
from toy import Learn, Linear, Reach


class Broken(Linear):
    def ports(self):
        return {name: self.missing[name] for name in ("obs", "action")}


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Broken())  # wrong: stage-broken
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
