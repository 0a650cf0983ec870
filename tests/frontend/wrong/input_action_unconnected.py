# The policy decides, and nobody tells the simulator.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)  # wrong: input-unconnected
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
