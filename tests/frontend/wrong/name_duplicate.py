# Two stages with one name.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear(), name="policy")
old = graph.generate(Linear(), name="policy")  # wrong: stage-name-duplicate
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> old.obs
ppo.weights >> old.weights
