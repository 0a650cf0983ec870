# A method of the graph is misspelt.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulat(Reach(), envs=8)  # wrong: file-error
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
