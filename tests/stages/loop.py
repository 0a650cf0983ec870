"""A synchronous pipeline in one process, as small as the protocols allow: what the tests learn
with.

Every environment fills one segment after another; when all have, the learner updates, and the
policy takes its weights `lag` updates late.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ebrl.frontend.program import EnvironmentProgram, TrainingProgram
from ebrl.stages.base import Learner, Policy, Simulator
from ebrl.stages.protocols import Batch
from tests.stages.batches import blank


@dataclass
class Progress:
    """Running totals; `returns` holds the last hundred episodes, in environment units."""

    env_steps: int = 0
    episodes: int = 0
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    success: deque[bool] = field(default_factory=lambda: deque(maxlen=100))
    metrics: dict[str, float] = field(default_factory=dict)
    act_s: float = 0.0
    simulate_s: float = 0.0
    learn_s: float = 0.0


def learn(
    simulator: Simulator,
    policy: Policy,
    learner: Learner,
    *,
    envs: int,
    steps: int,
    seed: int,
    lag: int = 0,
) -> Iterator[Progress]:
    """Runs `steps` environment steps; yields after every update."""
    spec, action, limit = simulator.describe()
    chunk = getattr(policy, "chunk", 1)
    assert chunk == 1, "this loop executes one action a decision"
    environment = EnvironmentProgram(
        obs=dict(spec), action=action, min_count=envs, max_count=envs, max_episode_steps=limit
    )
    horizon, segments = learner.horizon, learner.batch // learner.horizon
    assert segments % envs == 0, f"{segments} segments an update do not divide over {envs}"
    rounds = segments // envs
    training = TrainingProgram(
        horizon=horizon,
        batch=learner.batch,
        max_staleness=lag,
        epochs=getattr(learner, "epochs", 1),
        minibatch=getattr(learner, "minibatch", None),
    )
    actor = policy.build(environment, seed=seed, device="cpu")
    body = learner.build(
        policy,
        environment,
        training,
        seed=seed,
        device="cpu",
        total_updates=steps // learner.batch,
    )
    published = [np.zeros(sum(int(np.prod(s)) for s in body.weights().values()), np.float32)]
    body.write_weights(published[0])
    actor.load_weights(published[0])

    T = horizon
    batch = Batch(
        segment=np.arange(segments),
        obs=blank(spec, segments, T + 1),
        action=blank({"": action.tensor}, segments, T)[""],
        log_prob=np.zeros((segments, T), np.float32),
        version=np.zeros((segments, T), np.int64),
        reward=np.zeros((segments, T, 1), np.float32),
        steps=np.zeros((segments, T), np.uint8),
        terminated=np.zeros((segments, T), np.bool_),
        truncated=np.zeros((segments, T), np.bool_),
        trained_version=0,
    )
    seeds = np.random.SeedSequence(seed).spawn(envs + 1)
    rng = np.random.default_rng(seeds[-1])
    worlds = [simulator.environment() for _ in range(envs)]
    first = [blank(spec) for _ in range(envs)]
    for world, obs, each in zip(worlds, first, seeds[:envs], strict=True):
        world.reset(int(each.generate_state(1)[0]), obs)
    returned, succeeded = np.zeros(envs), np.zeros(envs, bool)
    waiting = np.zeros(envs, bool)  # the episode ended: this row holds its final observation only
    progress = Progress()

    def cell(s: int, t: int) -> dict[str, np.ndarray]:
        return {path: array[s, t] for path, array in batch.obs.items()}

    while progress.env_steps < steps:
        batch.steps[:], batch.terminated[:], batch.truncated[:] = 0, False, False
        for r in range(rounds):
            base = r * envs
            for e in range(envs):
                for path, value in first[e].items():
                    batch.obs[path][base + e, 0] = value
            for t in range(T):
                ready = base + np.flatnonzero(~waiting)
                started = time.perf_counter()
                if len(ready):
                    noise = (
                        rng.standard_normal((len(ready), actor.noise_size), np.float32)
                        if actor.noise_kind == "normal"
                        else rng.random((len(ready), actor.noise_size), np.float32)
                    )
                    chosen, log_prob = actor.act(
                        {path: array[ready, t] for path, array in batch.obs.items()}, noise
                    )
                    batch.action[ready, t], batch.log_prob[ready, t] = chosen, log_prob
                acted = time.perf_counter()
                for e, world in enumerate(worlds):
                    s = base + e
                    after = cell(s, t + 1)
                    if waiting[e]:
                        world.reset(None, after)
                        waiting[e] = False
                    else:
                        result = world.step(batch.action[s, t], after)
                        batch.reward[s, t, 0] = result.reward
                        batch.steps[s, t] = 1
                        batch.terminated[s, t] = result.terminated
                        batch.truncated[s, t] = result.truncated
                        returned[e] += result.reward
                        succeeded[e] |= bool(result.success)
                        progress.env_steps += 1
                        if result.terminated or result.truncated:
                            waiting[e] = True
                            progress.episodes += 1
                            progress.returns.append(float(returned[e]))
                            progress.success.append(bool(succeeded[e]))
                            returned[e], succeeded[e] = 0.0, False
                progress.act_s += acted - started
                progress.simulate_s += time.perf_counter() - acted
            for e, world in enumerate(worlds):
                if waiting[e]:
                    world.reset(None, first[e])
                    waiting[e] = False
                else:
                    for path, value in first[e].items():
                        value[...] = batch.obs[path][base + e, T]
        started = time.perf_counter()
        progress.metrics = body.update(batch, lambda: False)
        flat = np.empty_like(published[0])
        body.write_weights(flat)
        published.append(flat)
        actor.load_weights(published[max(0, len(published) - 1 - lag)])
        del published[: -lag - 1]
        progress.learn_s += time.perf_counter() - started
        yield progress
    for world in worlds:
        world.close()
