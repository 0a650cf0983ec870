# The action goes from the policy to the simulator.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
sim.action >> act.action  # wrong: port-direction
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
