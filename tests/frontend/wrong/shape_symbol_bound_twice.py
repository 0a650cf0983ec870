# One dimension, two lengths: of the observation and of the goal.
import ebrl
from toy import Learn, Linear, Reach


class Aimed(Linear):
    obs = ebrl.In(ebrl.Spec("float32", ("n",)))
    goal = ebrl.In(ebrl.Spec("float32", ("n",)))


class Goals(ebrl.Stage):
    kind = "goals"
    seen = ebrl.In(ebrl.Spec("float32", (3,)))
    goal = ebrl.Out(ebrl.Spec("float32", (5,)))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Aimed())
goals = graph.stage(Goals())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> goals.seen
goals.goal >> act.goal  # wrong: shape-mismatch
