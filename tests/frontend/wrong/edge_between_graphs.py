# A policy of another graph.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
other = ebrl.Graph("other")
act = graph.generate(Linear())
teacher = other.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> teacher.obs  # wrong: edge-between-graphs
