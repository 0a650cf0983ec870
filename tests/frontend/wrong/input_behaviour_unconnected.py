# The learner does not hear what the policy did.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())  # wrong: input-unconnected

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
ppo.weights >> act.weights
