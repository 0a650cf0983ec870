# A stage feeds itself.
import ebrl
from toy import Learn, Linear, Reach


class Memory(ebrl.Stage):
    kind = "memory"
    seen = ebrl.In(ebrl.Spec("float32", (3,)))
    before = ebrl.In(ebrl.Spec("float32", (8,)))
    after = ebrl.Out(ebrl.Spec("float32", (8,)))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())
mem = graph.stage(Memory())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim.obs >> mem.seen
mem.after >> mem.before  # wrong: edge-self
