"""GR00T on RoboCasa: kitchens with a mobile manipulator, three cameras, MuJoCo on cores.

The learner's shape is RLinf's isaaclab_franka_stack_cube_ppo_gr00t: 64 environments, chunks of
16, 512 decisions an update in micro-batches of 32; observations, actions and the 300 steps of an
episode are those of RLinf's env/robocasa365. It is declared for planning; nothing of it needs to
be installed:

    ebrl plan graphs/gr00t_robocasa.py --cluster h100x4
"""

import ebrl
from ebrl.stages.workloads import VLA, VLAPPO, RoboCasa

CHUNK = 16  # actions of one answer

graph = ebrl.Graph("gr00t-robocasa")
sim = graph.simulate(RoboCasa("atomic_seen", max_steps=300), envs=(16, 128))
act = graph.generate(VLA("gr00t", chunk=CHUNK))
ppo = graph.train(
    VLAPPO("gr00t", chunk=CHUNK, horizon=8, batch=512 * CHUNK, micro_batch=32),
    max_staleness=1,
)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
