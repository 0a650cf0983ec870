"""PushCube from state: a robot arm learns to push a cube onto a target, on this machine's cores.

ebrl plan graphs/pushcube_ppo.py --cluster local -o plan.json
ebrl execute plan.json --steps 120000
"""

import ebrl
from ebrl.stages import PPO, ManiSkill, MLPPolicy

graph = ebrl.Graph("pushcube-ppo")
sim = graph.simulate(
    ManiSkill("PushCube-v1", obs="state", control_mode="pd_ee_delta_pos", ik="jacobian"),
    envs=16,  # half of the 32 segments in a batch: admission never holds one back
)
act = graph.generate(MLPPolicy(hidden=(128, 128), log_std_init=-0.7, normalise_obs=True))
ppo = graph.train(
    PPO(
        horizon=12,
        batch=384,  # small: little policy change in one version
        epochs=4,
        minibatch=192,
        learning_rate=1e-3,
        anneal=0.1,
        gamma=0.9,
        gae_lambda=0.95,
        reward_scale=0.1,  # 1 - gamma: values stay near one
        terminal="absorb",  # success ends an episode, and would have gone on paying
    ),
    max_staleness=1,
)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
