# A stage of a kind of its own is declared as a policy.
import ebrl
from toy import Learn, Linear, Reach, Score

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())
rew = graph.generate(Score())  # wrong: stage-wrong-kind

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
