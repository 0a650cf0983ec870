# A policy gives two actions for one observation, which is what chunk is for.
import ebrl
from toy import Learn, Linear, Reach


class Twice(Linear):
    action = ebrl.Out(rate=2)


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Twice())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action  # wrong: rate-inconsistent
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
