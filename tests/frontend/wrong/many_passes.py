# Types, rates, loops and arithmetic are wrong together.
import ebrl
from toy import Linear, Reach, Score, ScoredLearn


class Pairs(Score):
    frames = ebrl.In(ebrl.Spec("float32", (5,)), rate=2)


class Typed(Linear):
    action = ebrl.Out(ebrl.Spec("float64", (2,)))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Typed())
rew = graph.stage(Pairs())
ppo = graph.train(ScoredLearn(batch=250))  # wrong: batch-not-segments

sim.obs >> act.obs
act.action >> sim.action  # wrong: dtype-mismatch
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> rew.frames  # wrong: shape-mismatch
rew.score >> ppo.score  # wrong: rate-inconsistent
graph.connect(rew.score, act.obs, max_staleness=2)  # wrong: input-connected-twice, staleness-misplaced
