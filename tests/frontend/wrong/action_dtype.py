# The policy answers float64 actions, the simulator takes float32.
import ebrl
from toy import Learn, Linear, Reach


class Precise(Linear):
    action = ebrl.Out(ebrl.Spec("float64", (2,)))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Precise())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action  # wrong: dtype-mismatch
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
