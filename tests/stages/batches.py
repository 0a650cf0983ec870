"""Random environments and batches for learners, laid out as the slab does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ebrl.frontend.program import ActionProgram, EnvironmentProgram, TrainingProgram
from ebrl.frontend.spec import Spec, Tensor
from ebrl.stages import PPO
from ebrl.stages.base import Policy
from ebrl.stages.policies.actor_critic import noise_of
from ebrl.stages.protocols import Batch, PolicyBody

DISCRETE = ActionProgram(kind="discrete", dtype="int64", n=3)
BOX = ActionProgram(kind="box", dtype="float32", shape=(2,), low=(-1.0,) * 2, high=(1.0,) * 2)
VECTOR = Spec("float32", (5,))
PICTURE = Spec({"rgb": Tensor("uint8", (40, 40, 3)), "state": Tensor("float32", (4,))})


def blank(spec: Mapping[str, Tensor], *lead: int) -> dict[str, np.ndarray]:
    """Zeros for one observation, or for `lead` of them."""
    return {
        path: np.zeros((*lead, *(int(dim) for dim in tensor.shape)), tensor.dtype)
        for path, tensor in spec.items()
    }


def environment(action: ActionProgram = BOX, obs: Spec = VECTOR) -> EnvironmentProgram:
    return EnvironmentProgram(obs=dict(obs), action=action, min_count=1, max_count=8)


def training(learner: PPO) -> TrainingProgram:
    return TrainingProgram(
        horizon=learner.horizon,
        batch=learner.batch,
        max_staleness=1,
        epochs=learner.epochs,
        minibatch=learner.minibatch,
    )


def build(learner: PPO, policy: Policy, env: EnvironmentProgram, seed: int = 0, **more: Any) -> Any:
    more = {"total_updates": None, **more}
    return learner.build(policy, env, training(learner), seed=seed, device="cpu", **more)


def weights(body: Any) -> np.ndarray:
    flat = np.empty(sum(int(np.prod(s)) for s in body.weights().values()), np.float32)
    body.write_weights(flat)
    return flat


def observations(spec: Any, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, Any]:
    return {
        path: rng.integers(0, 256, (*shape, *t.shape), np.uint8)
        if t.dtype == "uint8"
        else rng.standard_normal((*shape, *t.shape), np.float32)
        for path, t in spec.items()
    }


def rollout(
    env: EnvironmentProgram,
    actor: PolicyBody,
    *,
    horizon: int,
    pool: int = 12,
    segments: int = 8,
    seed: int = 0,
    ends: float = 0.2,
) -> Batch:
    """A batch whose actions `actor` has chosen; the pool has segments that are not in it."""
    rng = np.random.default_rng(seed)
    obs = observations(env.obs, (pool, horizon + 1), rng)
    count = pool * horizon
    size, kind = noise_of(env.action)
    noise = (
        rng.standard_normal((count, size), np.float32)
        if kind == "normal"
        else rng.random((count, size), np.float32)
    )
    seen = {
        path: np.ascontiguousarray(each[:, :-1]).reshape(count, *each.shape[2:])
        for path, each in obs.items()
    }
    action, log_prob = actor.act(seen, noise)
    steps = np.full((pool, horizon), env.action.chunk, np.uint8)
    terminated, truncated = np.zeros((2, pool, horizon), bool)
    for s in range(pool):
        t = 0
        while t < horizon:
            if rng.random() < ends:
                (terminated if rng.random() < 0.5 else truncated)[s, t] = True
                if t + 1 < horizon:
                    steps[s, t + 1] = 0
                t += 1
            t += 1
    return Batch(
        segment=rng.permutation(pool)[:segments].astype(np.int64),
        obs=obs,
        action=action.reshape(pool, horizon, *action.shape[1:]).copy(),
        log_prob=log_prob.reshape(pool, horizon).copy(),
        version=np.zeros((pool, horizon), np.int64),
        reward=rng.standard_normal((pool, horizon, env.action.chunk), np.float32),
        steps=steps,
        terminated=terminated,
        truncated=truncated,
        trained_version=0,
    )
