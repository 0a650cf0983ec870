# The edge allows what the learner does not.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
graph.connect(sim.transition, ppo.transition, max_staleness=4)  # wrong: staleness-conflict
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
