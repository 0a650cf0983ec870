# Nothing decides.
import ebrl
from toy import Learn, Reach

graph = ebrl.Graph("wrong")  # wrong: kind-missing
sim = graph.simulate(Reach(), envs=8)  # wrong: input-unconnected
ppo = graph.train(Learn())  # wrong: input-unconnected

sim.transition >> ppo.transition
