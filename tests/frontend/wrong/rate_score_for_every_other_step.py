# The reward model scores two steps at once, the learner wants a score a step.
import ebrl
from toy import Linear, Reach, Score, ScoredLearn


class Pairs(Score):
    frames = ebrl.In(ebrl.Spec("float32", (3,)), rate=2)


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
rew = graph.stage(Pairs())
ppo = graph.train(ScoredLearn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> rew.frames
rew.score >> ppo.score  # wrong: rate-inconsistent
