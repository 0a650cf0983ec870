# An edge is drawn on from an edge.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs >> ppo.transition  # wrong: edge-chained
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
