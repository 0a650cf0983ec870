# A batch shorter than one segment.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=1)
act = graph.generate(Linear())
ppo = graph.train(Learn(horizon=64, batch=32))  # wrong: batch-not-segments

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
