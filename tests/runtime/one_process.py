"""The three real loops of a run and its real learner in one process, for tests that look inside."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.loops import Loops, program
from ebrl.runtime import memory
from ebrl.runtime.learning import Learning
from ebrl.runtime.worker import Worker
from ebrl.stages import PPO, Gymnasium, MLPPolicy

BATCH = 512


class Built:
    """A stage whose body is there already."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def build(self, *given: Any, **options: Any) -> Any:
        return self._body


class OneProcess:
    """CartPole, a small network and PPO; `dress` may put something around the learner's body."""

    def __init__(self, folder: Path, *, dress: Callable[[Any], Any] = lambda body: body) -> None:
        simulator, policy = Gymnasium("CartPole-v1"), MLPPolicy(hidden=(16, 16))
        learner = PPO(horizon=16, batch=BATCH, epochs=2, minibatch=128)
        obs, action, _ = simulator.describe()
        of = program(environments=8, obs=dict(obs), action=action, horizon=16, batch=BATCH)
        options: dict[str, Any] = {"seed": 0, "device": "cpu"}
        body = dress(
            learner.build(policy, of.environment, of.training, total_updates=None, **options)
        )
        self.loops = Loops(
            of,
            environment=simulator.environment,
            policy=policy.build(of.environment, **options),
            learner=body,
            serve=4,
        )
        self.slab, self.segments = self.loops.slab, self.loops.segments
        self._fds = memory.create()
        boot = msgspec.structs.replace(
            self.loops.workers["train"].boot, memory_fds=self._fds, run_dir=str(folder)
        )
        self.slab["weights/version"][0] = -1
        self.learning = Learning(Worker(boot, {"train": Built(body), "generate": policy}))
        self.updates = 0
        self.loops._update = self._update  # type: ignore[method-assign]

    def go(self, updates: int) -> None:
        """Until the learner has been asked for so many updates more."""
        target = self.updates + updates
        while self.updates < target:
            self.loops.turn()

    def close(self) -> None:
        self.loops.close()
        for fd in self._fds:
            os.close(fd)

    def _update(self) -> int:
        found = self.learning.update()
        self.updates += found
        self.loops.workers["train"].bells_of("simulate")[0].ring()
        return int(found)
