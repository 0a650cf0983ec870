# Segments of 16 decisions of 5 actions: 80 steps, and 256 is no multiple.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear(chunk=5))
ppo = graph.train(Learn())  # wrong: batch-not-segments

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
