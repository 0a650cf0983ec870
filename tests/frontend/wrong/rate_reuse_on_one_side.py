# Transitions are used four times, what the policy did only once.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
graph.connect(sim.transition, ppo.transition, reuse=4)
act.behaviour >> ppo.behaviour  # wrong: rate-inconsistent
ppo.weights >> act.weights
