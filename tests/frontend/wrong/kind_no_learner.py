# Nothing learns.
import ebrl
from toy import Linear, Reach

graph = ebrl.Graph("wrong")  # wrong: kind-missing
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())  # wrong: input-unconnected

sim.obs >> act.obs
act.action >> sim.action
