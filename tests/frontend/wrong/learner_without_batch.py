# A learner whose batch is called otherwise.
import ebrl
from toy import Linear, Reach


class Odd(ebrl.Learner):
    def __init__(self):
        self.horizon = 16
        self.batch_size = 256


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Odd())  # wrong: learner-setting-invalid

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
