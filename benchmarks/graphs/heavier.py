"""PushCube whose scene becomes heavier while it runs: from the moment that the file named by
EBRL_HEAVIER exists, its physics takes SUBSTEPS times as many, as much shorter, steps."""

import os
from typing import Any

import ebrl
from ebrl.stages import PPO, ManiSkill, MLPPolicy

SUBSTEPS = 7
LOOK_EVERY = 20  # steps


class Heavier(ManiSkill):
    """A ManiSkill task with a switch."""

    def make(self) -> Any:
        import gymnasium

        class Switched(gymnasium.Wrapper[Any, Any, Any, Any]):
            """Looks for the file now and then."""

            def __init__(self, env: Any) -> None:
                super().__init__(env)
                self._count, self._heavy = 0, False

            def step(self, action: Any) -> Any:
                self._count += 1
                if not self._heavy and self._count % LOOK_EVERY == 1:
                    self._heavy = os.path.exists(os.environ.get("EBRL_HEAVIER", ""))
                    if self._heavy:
                        core: Any = self.unwrapped
                        core._sim_steps_per_control *= SUBSTEPS
                        core.scene.timestep = 1.0 / (core.sim_freq * SUBSTEPS)
                return super().step(action)

        return Switched(super().make())


graph = ebrl.Graph("pushcube-heavier")
sim = graph.simulate(
    Heavier("PushCube-v1", obs="state", control_mode="pd_ee_delta_pos", ik="jacobian"),
    envs=(8, 32),
)
act = graph.generate(MLPPolicy(hidden=(128, 128), log_std_init=-0.7, normalise_obs=True))
ppo = graph.train(PPO(horizon=12, batch=384, epochs=4, minibatch=192, gamma=0.9), max_staleness=1)

sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
