"""CartPole in seconds: a mean return of 475 within 150,000 steps, on actions up to one version old.

ebrl plan graphs/cartpole_ppo.py --cluster local -o plan.json
ebrl execute plan.json --steps 150000
"""

import ebrl
from ebrl.stages import PPO, Gymnasium, MLPPolicy

graph = ebrl.Graph("cartpole-ppo")
sim = graph.simulate(Gymnasium("CartPole-v1"), envs=32)
act = graph.generate(MLPPolicy(hidden=(64, 64)))
ppo = graph.train(
    PPO(
        horizon=32,
        batch=1024,
        epochs=10,
        minibatch=256,
        learning_rate=1e-3,
        anneal=0.0,  # to nothing at the run's last step
        gamma=0.98,
        gae_lambda=0.8,
    ),
    max_staleness=1,
)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
