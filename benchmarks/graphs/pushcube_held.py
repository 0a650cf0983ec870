"""graphs/pushcube_ppo.py with a learner that can be held back (held.py)."""

import held  # type: ignore[import-not-found]  # found beside the graph

import ebrl
from ebrl.stages import ManiSkill, MLPPolicy

graph = ebrl.Graph("pushcube-held")
sim = graph.simulate(
    ManiSkill("PushCube-v1", obs="state", control_mode="pd_ee_delta_pos", ik="jacobian"),
    envs=16,
)
act = graph.generate(MLPPolicy(hidden=(128, 128), log_std_init=-0.7, normalise_obs=True))
ppo = graph.train(
    held.HeldPPO(
        horizon=12,
        batch=384,
        epochs=4,
        minibatch=192,
        learning_rate=1e-3,
        anneal=0.1,
        gamma=0.9,
        gae_lambda=0.95,
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
