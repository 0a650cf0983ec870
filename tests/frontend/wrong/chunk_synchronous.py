# Synchronous: 8 environments × 16 decisions × 4 actions are more than the batch.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear(chunk=4))
ppo = graph.train(Learn(), max_staleness=0)  # wrong: batch-not-environments

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
