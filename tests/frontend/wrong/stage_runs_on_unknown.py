# There are cpu and gpu.
import ebrl
from toy import Learn, Linear, Reach


class OnTpu(Linear):
    runs_on = ("cpu", "tpu")


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(OnTpu())  # wrong: stage-runs-on
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
