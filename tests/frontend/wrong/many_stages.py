# Three stages, each wrong in its own way, and a kind too many.
import ebrl
from toy import Learn, Linear, Reach


class OnTpu(Linear):
    runs_on = ("tpu",)


class Open(Learn):
    def __init__(self):
        super().__init__()
        self.file = print


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(OnTpu())  # wrong: stage-runs-on
ppo = graph.train(Open())  # wrong: settings-not-plain
ppo2 = graph.train(Learn)  # wrong: stage-not-a-stage, kind-several

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
sim >> ppo  # wrong: port-not-named
