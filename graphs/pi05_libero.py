"""π0.5 on LIBERO: a 3B flow-matching policy, MuJoCo on cores.

The shape is RLinf's libero_spatial_ppo_openpi_pi05: 64 environments, 240 steps an episode, chunks
of 5, 2,048 decisions an update in micro-batches of 128. It is declared for planning; nothing of
it needs to be installed:

    ebrl plan graphs/pi05_libero.py --cluster h100x8
"""

import ebrl
from ebrl.stages.workloads import VLA, VLAPPO, Libero

CHUNK = 5  # actions of one answer

graph = ebrl.Graph("pi05-libero")
sim = graph.simulate(Libero("libero_spatial", max_steps=240), envs=(16, 512))
act = graph.generate(VLA("pi05", chunk=CHUNK))
ppo = graph.train(
    VLAPPO("pi05", chunk=CHUNK, horizon=8, batch=2048 * CHUNK, micro_batch=128),
    max_staleness=1,
)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
