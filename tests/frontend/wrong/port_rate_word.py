# A rate is a number.
import ebrl
from toy import Learn, Linear, Reach


class Slow(ebrl.Stage):
    kind = "slow"
    obs = ebrl.In(ebrl.Spec("float32", (3,)), rate="all")  # wrong: port-rate


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())
slow = graph.stage(Slow())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> slow.obs
