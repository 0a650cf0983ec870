# The policy moves seven joints, the simulator has two.
import ebrl
from toy import Learn, Linear, Reach


class Arm(Linear):
    action = ebrl.Out(ebrl.Spec("float32", (7,)))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Arm())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action  # wrong: shape-mismatch
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
