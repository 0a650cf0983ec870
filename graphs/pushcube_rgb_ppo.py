"""PushCube from a camera: pictures and joint state in, end-effector moves out.

ebrl plan graphs/pushcube_rgb_ppo.py --cluster local -o plan.json
ebrl execute plan.json --steps 200000
"""

import ebrl
from ebrl.stages import PPO, CNNPolicy, ManiSkill

graph = ebrl.Graph("pushcube-rgb-ppo")
sim = graph.simulate(
    ManiSkill(
        "PushCube-v1",
        obs="rgb",
        camera=(64, 64),
        control_mode="pd_ee_delta_pos",
        ik="jacobian",
    ),
    envs=16,
)
act = graph.generate(CNNPolicy(features=128, log_std_init=-0.7, normalise_obs=True))
ppo = graph.train(
    PPO(
        horizon=25,
        batch=800,
        epochs=4,
        minibatch=200,
        learning_rate=3e-4,
        gamma=0.9,
        reward_scale=0.1,
        terminal="absorb",
    ),
    max_staleness=1,
)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
