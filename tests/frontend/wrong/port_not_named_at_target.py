# A stage stands where a port should, at the end.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())  # wrong: input-unconnected
ppo = graph.train(Learn())

sim.obs >> act  # wrong: port-not-named
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
