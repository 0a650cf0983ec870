"""Pendulum, a continuous action, in seconds: a mean return of about −200 within 100,000 steps
(fresh seeds: −215, −198, −187, of the exploring policy).

ebrl plan graphs/pendulum_ppo.py --cluster local -o plan.json
ebrl execute plan.json --steps 100000
"""

import ebrl
from ebrl.stages import PPO, Gymnasium, MLPPolicy

graph = ebrl.Graph("pendulum-ppo")
sim = graph.simulate(Gymnasium("Pendulum-v1"), envs=16)
act = graph.generate(MLPPolicy(hidden=(64, 64)))
ppo = graph.train(
    PPO(
        horizon=64,
        batch=2048,
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
