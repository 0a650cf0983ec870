# There is no such dtype.
import ebrl
from toy import Learn, Linear, Reach


class Typed(Linear):
    obs = ebrl.In(ebrl.Spec("flaot32", (3,)))  # wrong: spec-invalid


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Typed())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
