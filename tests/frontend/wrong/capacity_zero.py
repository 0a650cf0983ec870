# A buffer of nothing.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
graph.connect(sim.transition, ppo.transition, capacity=0)  # wrong: edge-option-invalid
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
