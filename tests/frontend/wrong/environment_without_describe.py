# A stage of kind simulate that is no Simulator.
import ebrl
from toy import Learn, Linear


class World(ebrl.Stage):
    kind = "simulate"
    probed = False
    obs = ebrl.Out(ebrl.Spec("float32", (3,)))
    action = ebrl.In(ebrl.Spec("float32", (2,)))
    transition = ebrl.Out()


graph = ebrl.Graph("wrong")
sim = graph.simulate(World(), envs=8)  # wrong: environment-invalid
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
