# Nothing says how long a feature is.
import ebrl
from toy import Learn, Linear, Reach


class Encoder(ebrl.Stage):
    kind = "encode"
    obs = ebrl.In(ebrl.Spec("float32", (3,)))
    features = ebrl.Out(ebrl.Spec("float32", ("width",)))


class Head(Linear):
    obs = ebrl.In(ebrl.Spec("float32", ("k",)))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Head())
enc = graph.stage(Encoder())
ppo = graph.train(Learn())

sim.obs >> enc.obs
enc.features >> act.obs  # wrong: dimension-unbound
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
