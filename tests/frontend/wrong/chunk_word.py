# A chunk is a number of actions.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear(chunk="all"))  # wrong: chunk-invalid
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
