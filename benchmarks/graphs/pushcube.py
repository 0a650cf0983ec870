"""PushCube from state as every peer trains it in the benchmark."""

import ebrl
from ebrl.stages import PPO, ManiSkill, MLPPolicy

graph = ebrl.Graph("benchmark-pushcube")
sim = graph.simulate(ManiSkill("PushCube-v1", obs="state"), envs=32)
act = graph.generate(MLPPolicy(hidden=(256, 256)))
ppo = graph.train(PPO(horizon=32, batch=4096, epochs=8, minibatch=512), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
