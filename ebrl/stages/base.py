"""The three kinds that the runtime executes, as a user writes them: a `Simulator` makes an
environment, a `Policy` a network, a `Learner` an update.

Invariant: importing this module and declaring a stage imports neither torch nor a simulator; the
methods that do are called in worker processes only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ebrl.frontend.program import ActionProgram, EnvironmentProgram, Hardware, TrainingProgram
from ebrl.frontend.spec import Spec
from ebrl.frontend.stage import In, Out, Stage

if TYPE_CHECKING:
    from ebrl.stages.protocols import Environment, LearnerBody, PolicyBody, Weights


class Simulator(Stage):
    """Environments. Implement `make`, which returns one Gymnasium environment, not a vector."""

    kind: ClassVar[str] = "simulate"
    probed: ClassVar[bool] = True  # False: `describe` is cheap and may be asked while checking
    imports: ClassVar[tuple[str, ...]] = ()  # imported once, and then shared by all workers
    obs = Out(doc="observation of one environment")
    action = In(doc="action of one environment")
    transition = Out(doc="observation, reward, terminated, truncated")

    def make(self) -> Any:
        """One gymnasium.Env; called in a worker, once an environment."""
        raise NotImplementedError(f"{type(self).__name__} must implement make()")

    def describe(self) -> tuple[Spec, ActionProgram, int | None]:
        """Observation spec, action, episode limit. By default one environment is made and asked."""
        from ebrl.stages.envs.describe import describe

        return describe(self.make())

    def environment(self) -> Environment:
        """The worker's view of one environment: `make()`, adapted and guarded."""
        from ebrl.stages.envs.adapter import GymnasiumEnvironment

        return GymnasiumEnvironment(self.make())


class Policy(Stage):
    """A policy. Implement `network`: a torch module, see `ebrl.stages.policies.actor_critic`."""

    kind: ClassVar[str] = "generate"
    runs_on: ClassVar[tuple[Hardware, ...]] = ("cpu", "gpu")
    obs = In(doc="observation, as the simulator gives it")
    action = Out(doc="action, as the simulator takes it")
    behaviour = Out(doc="action, log-prob and weights version, as sampled")
    weights = In(latest=True, doc="newest parameters")

    def network(self, environment: EnvironmentProgram) -> Any:
        """A torch.nn.Module with `distribution(obs)` and `value(obs)`."""
        raise NotImplementedError(f"{type(self).__name__} must implement network()")

    def weights_of(self, environment: EnvironmentProgram) -> Weights:
        """Names and shapes of everything published, without allocating it."""
        from ebrl.stages.policies.body import weights_of

        return weights_of(self, environment)

    def build(self, environment: EnvironmentProgram, *, seed: int, device: str) -> PolicyBody:
        from ebrl.stages.policies.body import NetworkPolicy

        return NetworkPolicy(self, environment, seed=seed, device=device)


class Learner(Stage):
    """A learner. Declares `horizon` (T) and `batch` (environment steps an update) as attributes."""

    kind: ClassVar[str] = "train"
    runs_on: ClassVar[tuple[Hardware, ...]] = ("cpu", "gpu")
    spans_devices = True
    transition = In(doc="what the simulator did")
    behaviour = In(doc="what the policy did")
    weights = Out(doc="parameters after an update")

    horizon: int
    batch: int
    group: int = 1  # neighbouring environments that begin each episode alike
    whole_episodes: ClassVar[bool] = False  # each segment is one episode, from its beginning

    def build(
        self,
        policy: Policy,
        environment: EnvironmentProgram,
        training: TrainingProgram,
        *,
        seed: int,
        device: str,
        total_updates: int | None,
    ) -> LearnerBody:
        """`total_updates` is known when the run has a step limit (for schedules)."""
        raise NotImplementedError(f"{type(self).__name__} must implement build()")
