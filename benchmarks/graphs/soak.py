"""CartPole whose simulator, policy and learner go wrong when they are asked to (see faults.py)."""

import faults
import gymnasium
import numpy as np

import ebrl
from ebrl.stages import PPO, MLPPolicy


class FaultyCartPole(gymnasium.Wrapper):
    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1", disable_env_checker=True))
        self.at_step, self.at_reset = faults.Faults("step"), faults.Faults("reset")

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        if fault := self.at_step.due():
            faults.commit(fault)
            if fault == "nan":
                obs = np.full_like(obs, np.nan)
            if fault == "shape":
                obs = obs[:2]
        return obs, reward, terminated, truncated, info

    def reset(self, **options):
        faults.commit(self.at_reset.due())
        return self.env.reset(**options)


class FaultySimulator(ebrl.Simulator):
    def make(self):
        return FaultyCartPole()


class Watched:
    """A body whose method of that name may go wrong."""

    def __init__(self, body, place, method):
        self._body, self._faults = body, faults.Faults(place)
        self._learns = place == "learner"
        setattr(self, method, self._call)
        self._method = getattr(body, method)

    def _call(self, *args):
        fault = self._faults.due()
        faults.commit(fault)
        if fault == "nan" and self._learns:
            args[0].reward[args[0].segment] = np.inf
        answer = self._method(*args)
        if fault == "nan" and not self._learns:
            answer[1][:] = np.nan
        return answer

    def __getattr__(self, name):
        return getattr(self._body, name)


class FaultyPolicy(MLPPolicy):
    def build(self, environment, *, seed, device):
        return Watched(super().build(environment, seed=seed, device=device), "policy", "act")


class FaultyPPO(PPO):
    def build(self, *args, **options):
        return Watched(super().build(*args, **options), "learner", "update")


graph = ebrl.Graph("soak")
sim = graph.simulate(FaultySimulator(), envs=8)
act = graph.generate(FaultyPolicy(hidden=(32, 32)))
ppo = graph.train(FaultyPPO(horizon=16, batch=512, epochs=2, minibatch=256), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
