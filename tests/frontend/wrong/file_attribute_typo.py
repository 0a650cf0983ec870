# A name of ebrl's is misspelt.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Grph("wrong")  # wrong: file-error
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
