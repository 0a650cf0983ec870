# The fault is in a function of the file.
import ebrl
from toy import Learn, Linear, Reach


def environments():
    return 256 // len([])  # wrong: file-error


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=environments())
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
