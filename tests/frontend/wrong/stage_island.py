# Two stages that feed each other, and nothing else.
import ebrl
from toy import Learn, Linear, Reach


class Source(ebrl.Stage):
    kind = "source"
    out = ebrl.Out(ebrl.Spec("int64"))


class Sink(ebrl.Stage):
    kind = "sink"
    inp = ebrl.In(ebrl.Spec("int64"))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())
source = graph.stage(Source())  # wrong: stage-disconnected
sink = graph.stage(Sink())  # wrong: stage-disconnected

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
source.out >> sink.inp
