# The learner was written for longer observations.
import ebrl
from toy import Learn, Linear, Reach


class Fixed(Learn):
    transition = ebrl.In(
        ebrl.Spec(
            {
                "obs": ebrl.Spec("float32", (35,)),
                "reward": ebrl.Spec("float32"),
                "terminated": ebrl.Spec("bool"),
                "truncated": ebrl.Spec("bool"),
            }
        )
    )


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Fixed())

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition  # wrong: shape-mismatch
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
