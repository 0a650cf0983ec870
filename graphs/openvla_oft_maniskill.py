"""OpenVLA-OFT on ManiSkill: a 7B policy, GPU simulation with rendering.

The shape is RLinf's maniskill_ppo_openvlaoft: 128 environments, 80 steps an episode, chunks of 8,
640 decisions an update in micro-batches of 40. It is declared for planning; nothing of it needs
to be installed:

    ebrl plan graphs/openvla_oft_maniskill.py --cluster a100x8
"""

import ebrl
from ebrl.stages.workloads import VLA, VLAPPO, ManiSkillGPU

CHUNK = 8  # actions of one answer

graph = ebrl.Graph("openvla-oft-maniskill")
sim = graph.simulate(ManiSkillGPU("PutOnPlateInScene25Main-v3", max_steps=80), envs=(16, 128))
act = graph.generate(VLA("openvla-oft", chunk=CHUNK))
ppo = graph.train(
    VLAPPO("openvla-oft", chunk=CHUNK, horizon=10, batch=640 * CHUNK, micro_batch=40),
    max_staleness=1,
)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
