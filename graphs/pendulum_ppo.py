"""Pendulum, a continuous action, in a dozen seconds: the exploring policy's mean return rises from
about −1,100 to between −310 and −230 within 150,000 steps (three seeds).

ebrl plan graphs/pendulum_ppo.py --cluster local -o plan.json
ebrl execute plan.json --steps 150000
"""

import ebrl
from ebrl.stages import PPO, Gymnasium, MLPPolicy

graph = ebrl.Graph("pendulum-ppo")
sim = graph.simulate(Gymnasium("Pendulum-v1"), envs=16)
act = graph.generate(MLPPolicy(hidden=(64, 64), normalise_obs=True))
ppo = graph.train(
    PPO(
        horizon=64,
        batch=1024,
        epochs=10,
        minibatch=64,
        learning_rate=1e-3,
        anneal=0.0,
        gamma=0.9,
        gae_lambda=0.95,
        reward_scale=0.1,  # 1 - gamma: values stay near one step's reward
    ),
    max_staleness=1,
)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
