# Shape and dtype differ, both are told.
import ebrl
from toy import Learn, Linear, Reach


class Typed(Linear):
    obs = ebrl.In(ebrl.Spec("float64", (4,)))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Typed())
ppo = graph.train(Learn())

sim.obs >> act.obs  # wrong: dtype-mismatch, shape-mismatch
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
