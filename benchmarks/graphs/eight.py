"""A pipeline whose times are declared, to be emulated on eight GPUs: a policy of 0.2 billion
parameters answers four steps at once, a simulator works on eight cores of its own.

Its profile is `benchmarks.eight.profile()`; nothing of it needs to be installed.
"""

import ebrl
from ebrl.frontend.program import Work
from ebrl.stages.workloads import VLA, VLAPPO, MetaWorld

CHUNK, HORIZON, BATCH = 4, 4, 768


class Scene(MetaWorld):
    """A simulator that needs several cores."""

    def profile_key(self) -> str:
        return "eight/step"


class Answer(VLA):
    """A policy with a fifth of a billion parameters."""

    def work(self) -> Work:
        return Work(
            flops=4e11, weight_bytes=4e8, update_bytes=4e8, activation_bytes=5e7, ram_bytes=2e9
        )

    def profile_key(self) -> str:
        return "eight/act"


class Learn(VLAPPO):
    """Its learner."""

    def work(self) -> Work:
        return Work(
            flops=2e12,
            weight_bytes=4e8,
            state_bytes=3.2e9,
            scratch_bytes=2e10,
            update_bytes=4e8,
            ram_bytes=4e9,
        )

    def profile_key(self) -> str:
        return "eight/train"


graph = ebrl.Graph("eight")
sim = graph.simulate(Scene("reach-v3", max_steps=200), envs=(32, 96))
act = graph.generate(Answer("pi0", chunk=CHUNK))
ppo = graph.train(
    Learn("pi0", chunk=CHUNK, horizon=HORIZON, batch=BATCH, micro_batch=64), max_staleness=3
)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
