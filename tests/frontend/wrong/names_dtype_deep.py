# One of several tensors has another dtype.
import ebrl
from toy import Learn, Linear, Reach


class Camera(Reach):
    def describe(self):
        obs = ebrl.Spec({"rgb": ebrl.Spec("uint8", (64, 64, 3)), "qpos": ebrl.Spec("float32", (9,))})
        return obs, *super().describe()[1:]


class Eyes(Linear):
    obs = ebrl.In(ebrl.Spec({"rgb": ebrl.Spec("float32", (64, 64, 3)), "qpos": ebrl.Spec("float32", (9,))}))


graph = ebrl.Graph("wrong")
sim = graph.simulate(Camera(), envs=8)
act = graph.generate(Eyes())
ppo = graph.train(Learn())

sim.obs >> act.obs  # wrong: dtype-mismatch
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
