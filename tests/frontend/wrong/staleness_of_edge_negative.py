# A bound below zero, on an edge.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
graph.connect(sim.transition, ppo.transition, max_staleness=-1)  # wrong: edge-option-invalid
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
