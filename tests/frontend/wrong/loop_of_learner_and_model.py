# A model waits for each update, the learner for each score.
import ebrl
from toy import Learn, Linear, Reach


class Model(ebrl.Stage):
    kind = "model"
    obs = ebrl.In(ebrl.Spec("float32", (3,)), rate=256)
    weights = ebrl.In(ebrl.Spec("float32", (10,)))
    score = ebrl.Out(ebrl.Spec("float32"), rate=256)


class Scored(Learn):
    weights = ebrl.Out(ebrl.Spec("float32", (10,)))
    score = ebrl.In(ebrl.Spec("float32"))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
model = graph.stage(Model())
ppo = graph.train(Scored())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> model.obs
model.score >> ppo.score
ppo.weights >> model.weights  # wrong: loop-without-tokens
