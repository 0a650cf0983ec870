# A port is assigned instead of connected.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())  # wrong: input-unconnected
ppo = graph.train(Learn())

act.obs = sim.obs  # wrong: port-assigned
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
