# A loop begins with one token where two are needed.
import ebrl
from toy import Learn, Linear, Reach


class Critic(ebrl.Stage):
    kind = "critic"
    obs = ebrl.In(ebrl.Spec("float32", (3,)))
    plan = ebrl.In(ebrl.Spec("float32", (4,)), rate=2)
    value = ebrl.Out(ebrl.Spec("float32"))


class Planner(ebrl.Stage):
    kind = "planner"
    value = ebrl.In(ebrl.Spec("float32"))
    plan = ebrl.Out(ebrl.Spec("float32", (4,)), rate=2)


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())
critic = graph.stage(Critic())
planner = graph.stage(Planner())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> critic.obs
critic.value >> planner.value
graph.connect(planner.plan, critic.plan, initial=1)  # wrong: loop-short-of-tokens
