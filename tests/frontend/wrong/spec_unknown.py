# Neither end says what flows.
import ebrl
from toy import Learn, Linear, Reach


class Left(ebrl.Stage):
    kind = "left"
    obs = ebrl.In()
    out = ebrl.Out()


class Right(ebrl.Stage):
    kind = "right"
    inp = ebrl.In()


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())
left = graph.stage(Left())
right = graph.stage(Right())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> left.obs
left.out >> right.inp  # wrong: spec-unknown
