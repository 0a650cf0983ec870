"""CartPole whose policy and learner write down where they were told to compute, and then compute on
the CPU: what a test needs where the device is not there."""

import json
import os
from pathlib import Path

import ebrl
from ebrl.stages import PPO, Gymnasium, MLPPolicy

TOLD = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_VISIBLE_DEVICES")


def note(stage, device):
    told = {name: os.environ[name] for name in TOLD if name in os.environ}
    path = Path(os.environ["EBRL_TEST_NOTES"]) / f"{stage}.json"
    path.write_text(json.dumps({"device": device, **told}))


class Policy(MLPPolicy):
    def build(self, environment, *, seed, device):
        note("generate", device)
        return super().build(environment, seed=seed, device="cpu")


class Learner(PPO):
    def build(self, *args, device, **more):
        note("train", device)
        return super().build(*args, device="cpu", **more)


graph = ebrl.Graph("on-a-device")
sim = graph.simulate(Gymnasium("CartPole-v1"), envs=8)
act = graph.generate(Policy(hidden=(16, 16)))
ppo = graph.train(Learner(horizon=16, batch=512, epochs=2, minibatch=128), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
