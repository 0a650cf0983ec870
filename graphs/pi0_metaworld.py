"""π0 on Meta-World: 50 tasks, MuJoCo on cores with one camera.

The shape is RLinf's metaworld_50_ppo_openpi: 64 environments, 100 steps an episode, chunks of 5,
2,048 decisions an update in micro-batches of 128, 4 epochs. It is declared for planning; nothing
of it needs to be installed:

    ebrl plan graphs/pi0_metaworld.py --cluster '2*(l40sx4)+1*(cpu64)'
"""

import ebrl
from ebrl.stages.workloads import VLA, VLAPPO, MetaWorld

CHUNK = 5  # actions of one answer

graph = ebrl.Graph("pi0-metaworld")
sim = graph.simulate(MetaWorld("MT50", max_steps=100), envs=(16, 512))
act = graph.generate(VLA("pi0", chunk=CHUNK))
ppo = graph.train(
    VLAPPO("pi0", chunk=CHUNK, horizon=8, batch=2048 * CHUNK, micro_batch=128, epochs=4),
    max_staleness=1,
)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
