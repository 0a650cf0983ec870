# A discrete action without a choice.
import ebrl
from ebrl.frontend.program import ActionProgram
from toy import Learn, Linear, Reach


class Odd(Reach):
    def describe(self):
        obs, _, limit = super().describe()
        return obs, ActionProgram(kind="discrete", dtype="int64", n=0), limit


graph = ebrl.Graph("wrong")
sim = graph.simulate(Odd(), envs=8)  # wrong: environment-invalid
act = graph.generate(Linear())
ppo = graph.train(Learn())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
