"""A small real pipeline for tests: CartPole, a small network, short batches."""

import ebrl
from ebrl.stages import PPO, Gymnasium, MLPPolicy

graph = ebrl.Graph("cartpole-test")
sim = graph.simulate(Gymnasium("CartPole-v1"), envs=8)
act = graph.generate(MLPPolicy(hidden=(16, 16)))
ppo = graph.train(PPO(horizon=16, batch=512, epochs=2, minibatch=128), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
