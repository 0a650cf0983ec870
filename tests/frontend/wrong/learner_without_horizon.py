# A learner without a horizon.
import ebrl
from toy import Linear, Reach


class Short(ebrl.Learner):
    def __init__(self):
        self.batch = 256


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Short())  # wrong: learner-setting-invalid

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
