# Five faults of connection, each told with its own line.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear(), name="my policy")  # wrong: stage-name-invalid
ppo = graph.train(Learn())  # wrong: input-unconnected

sim.obz >> act.obs  # wrong: port-unknown
sim.action >> act.action  # wrong: port-direction
sim.transition >> ppo.transition
ppo.weights >> act.weights
ppo.weights >> act.weights  # wrong: edge-duplicate
