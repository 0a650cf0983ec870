# Two stages are joined without naming ports.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())  # wrong: input-unconnected
ppo = graph.train(Learn())

sim >> act  # wrong: port-not-named
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
