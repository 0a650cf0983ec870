# Fewer than no tokens at the start.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
graph.connect(act.behaviour, ppo.behaviour, initial=-1)  # wrong: edge-option-invalid
ppo.weights >> act.weights
