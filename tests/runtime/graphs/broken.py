"""CartPole whose step raises after a while."""

import gymnasium

import ebrl
from ebrl.stages import PPO, MLPPolicy


class OnFire(gymnasium.Wrapper):
    steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps > 30:
            raise RuntimeError("the gripper is on fire")
        return super().step(action)


class Broken(ebrl.Simulator):
    def make(self):
        return OnFire(gymnasium.make("CartPole-v1"))


graph = ebrl.Graph("broken")
sim = graph.simulate(Broken(), envs=4)
act = graph.generate(MLPPolicy(hidden=(16, 16)))
ppo = graph.train(PPO(horizon=16, batch=512, epochs=2, minibatch=128), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
