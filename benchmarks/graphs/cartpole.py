"""CartPole as every peer trains it in the benchmark: same network, epochs, minibatch, horizon."""

import ebrl
from ebrl.stages import PPO, Gymnasium, MLPPolicy

graph = ebrl.Graph("benchmark-cartpole")
sim = graph.simulate(Gymnasium("CartPole-v1"), envs=64)
act = graph.generate(MLPPolicy(hidden=(64, 64)))
ppo = graph.train(PPO(horizon=128, batch=4096, epochs=4, minibatch=256), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
