# Nothing says how often a stage runs that only looks at the newest.
import ebrl
from toy import Learn, Linear, Reach


class Evaluate(ebrl.Stage):
    kind = "evaluate"
    weights = ebrl.In(latest=True)


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())
test = graph.stage(Evaluate())  # wrong: stage-disconnected

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
ppo.weights >> test.weights
