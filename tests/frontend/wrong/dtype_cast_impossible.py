# A cast cannot make bytes of floats.
import ebrl
from toy import Learn, Linear, Reach


class Typed(Linear):
    obs = ebrl.In(ebrl.Spec("uint8", (3,)))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Typed())
ppo = graph.train(Learn())

graph.connect(sim.obs, act.obs, cast=True)  # wrong: cast-impossible
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
