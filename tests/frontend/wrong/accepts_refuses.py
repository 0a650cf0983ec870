# The policy says in its own words what it cannot take.
import ebrl
from toy import Learn, Linear, Reach


class Eyes(Linear):
    def accepts(self, port, spec):
        if port == "obs" and all(tensor.dtype != "uint8" for tensor in spec.values()):
            return "there is no image in it"
        return None


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Eyes())
ppo = graph.train(Learn())

sim.obs >> act.obs  # wrong: spec-refused
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
