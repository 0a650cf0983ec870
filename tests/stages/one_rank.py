"""One rank of a learner, as a process of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch

from ebrl.frontend.program import ActionProgram, EnvironmentProgram, TrainingProgram
from ebrl.frontend.spec import Tensor
from ebrl.stages import PPO, MLPPolicy
from ebrl.stages.protocols import Batch

SEGMENTS, T = 9, 8  # not divisible by the ranks
ENVIRONMENT = EnvironmentProgram(
    obs={"": Tensor("float32", (3,))},
    action=ActionProgram(kind="discrete", dtype="int64", shape=(), n=4),
    min_count=1,
    max_count=8,
)


def batch(seed: int) -> Batch:
    generator = np.random.default_rng(seed)
    steps = np.ones((SEGMENTS, T), np.uint8)
    terminated = np.zeros((SEGMENTS, T), np.bool_)
    terminated[2, 3], steps[2, 4] = True, 0
    return Batch(
        segment=np.arange(SEGMENTS),
        obs={"": generator.standard_normal((SEGMENTS, T + 1, 3)).astype(np.float32)},
        action=generator.integers(0, 4, (SEGMENTS, T)),
        log_prob=np.full((SEGMENTS, T), -np.log(4), np.float32),
        version=np.zeros((SEGMENTS, T), np.int64),
        reward=generator.standard_normal((SEGMENTS, T, 1)).astype(np.float32),
        steps=steps,
        terminated=terminated,
        truncated=np.zeros_like(terminated),
        trained_version=0,
    )


def learn(rank: int, world: int, meeting: str, options: dict[str, Any], stop_at: int) -> Any:
    """Three updates; the weights they come to, and the metrics of the last."""
    torch.set_num_threads(1)
    training = TrainingProgram(
        horizon=T, batch=SEGMENTS * T, epochs=2, minibatch=24, max_staleness=0
    )
    settings = PPO(horizon=T, batch=SEGMENTS * T, epochs=2, minibatch=24, **options)
    policy = MLPPolicy(hidden=(16,), normalise_obs=True)
    body: Any = settings.build(
        policy, ENVIRONMENT, training, seed=5, device="cpu", total_updates=None
    )
    if world > 1:
        body.join(rank, world, meeting)
    metrics: dict[str, float] = {}
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return rank == world - 1 and asked == stop_at

    for update in range(3):
        metrics = body.update(batch(update), should_stop)
    flat = np.empty(sum(int(np.prod(shape)) for shape in body.weights().values()), np.float32)
    body.write_weights(flat)
    return flat.tolist(), metrics, asked


if __name__ == "__main__":
    rank, world, meeting, options, stop_at = sys.argv[1:]
    print(json.dumps(learn(int(rank), int(world), meeting, json.loads(options), int(stop_at))))
