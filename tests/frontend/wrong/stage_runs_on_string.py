# A tuple of one without its comma is a string.
import ebrl
from toy import Learn, Linear, Reach


class OnGpu(Linear):
    runs_on = ("gpu")


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(OnGpu())  # wrong: stage-runs-on
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
