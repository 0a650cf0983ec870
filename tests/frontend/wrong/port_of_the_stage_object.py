# The port is taken from the stage itself, not from what the graph returned.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
policy = Linear()
act = graph.generate(policy)  # wrong: input-unconnected
ppo = graph.train(Learn())

sim.obs >> policy.obs  # wrong: port-not-a-port
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
