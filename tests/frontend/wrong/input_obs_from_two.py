# The policy is shown two things at one port.
import ebrl
from toy import Learn, Linear, Reach


class Blur(ebrl.Stage):
    kind = "filter"
    sharp = ebrl.In(ebrl.Spec("float32", (3,)))
    soft = ebrl.Out(ebrl.Spec("float32", (3,)))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())
blur = graph.stage(Blur())

sim.obs >> act.obs
sim.obs >> blur.sharp
blur.soft >> act.obs  # wrong: input-connected-twice
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
