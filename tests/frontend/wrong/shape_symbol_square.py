# A square is wanted, an oblong is given.
import ebrl
from toy import Learn, Linear, Reach


class Camera(Reach):
    def describe(self):
        return ebrl.Spec("uint8", (64, 48)), *super().describe()[1:]


class Square(Linear):
    obs = ebrl.In(ebrl.Spec("uint8", ("side", "side")))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Camera(), envs=8)
act = graph.generate(Square())
ppo = graph.train(Learn())

sim.obs >> act.obs  # wrong: shape-mismatch
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
