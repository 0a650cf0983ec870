# A graph is made without a name.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph()  # wrong: file-error
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
