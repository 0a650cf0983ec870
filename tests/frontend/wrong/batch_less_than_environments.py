# Synchronous: more environments than segments in a batch.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=32)
act = graph.generate(Linear())
ppo = graph.train(Learn(), max_staleness=0)  # wrong: batch-not-environments

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
