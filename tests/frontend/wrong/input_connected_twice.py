# Two policies drive one simulator.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
other = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> other.obs
other.action >> sim.action  # wrong: input-connected-twice
ppo.weights >> other.weights
