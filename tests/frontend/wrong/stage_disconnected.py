# A stage with nothing but an output, going nowhere.
import ebrl
from toy import Learn, Linear, Reach


class Clock(ebrl.Stage):
    kind = "clock"
    tick = ebrl.Out(ebrl.Spec("int64"))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())
clock = graph.stage(Clock())  # wrong: stage-disconnected

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
