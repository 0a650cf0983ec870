# More environments than the learner can take segments of.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=100)
act = graph.generate(Linear())
ppo = graph.train(Learn())  # wrong: environments-exceed-batch

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
