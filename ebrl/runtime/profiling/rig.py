"""A test rig for one worker loop: a private slab, filled, with a stand-in for the other side.

Invariant: nothing is shared; what a loop finds here it would find in a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ebrl.planner.layout import slab_layout
from ebrl.planner.plan import Program
from ebrl.runtime.segments import NEEDS_ACTION, NEEDS_STEP, Segments
from ebrl.runtime.slab import Slab

UNLIMITED = 1 << 40  # segments a batch: admission never says no


class RandomActions:
    """Stands in for the policy: gives every waiting environment a random action."""

    def __init__(self, program: Program, slab: Slab) -> None:
        self._state = slab["env/state"]
        self._segment, self._cursor = slab["env/segment"], slab["env/cursor"]
        self._action = slab["action"]
        self._pool = np.empty((512, *self._action.shape[2:]), self._action.dtype)
        fill_actions(program, self._pool, np.random.default_rng(0))
        self._next = 0

    def __call__(self) -> None:
        envs = np.flatnonzero(self._state == NEEDS_ACTION)
        rows = (self._next + np.arange(envs.size)) % len(self._pool)
        self._next += envs.size
        self._action[self._segment[envs], self._cursor[envs]] = self._pool[rows]
        self._state[envs] = NEEDS_STEP


def fill_actions(program: Program, into: Any, generator: np.random.Generator) -> None:
    """Random actions, as a fresh policy would take them."""
    assert program.environment is not None
    action = program.environment.action
    if action.kind == "discrete":
        into[...] = generator.integers(0, action.n, into.shape)
    else:
        into[...] = generator.standard_normal(into.shape)


def fill_observations(slab: Slab) -> None:
    generator = np.random.default_rng(0)
    for array in slab.observations().values():
        if array.dtype.kind == "f":
            flat = array.reshape(-1)
            block = generator.standard_normal(min(flat.size, 1 << 20)).astype(array.dtype)
            for begin in range(0, flat.size, block.size):
                flat[begin : begin + block.size] = block[: flat.size - begin]
        else:
            array[...] = 1


def private(
    program: Program,
    environments: int,
    segments: int,
    weights_bytes: int,
    *,
    per_batch: int = UNLIMITED,
) -> tuple[Slab, Segments]:
    layout = slab_layout(
        program,
        environments=environments,
        segments=segments,
        workers=1,
        weights_bytes=weights_bytes,
    )
    slab = Slab.create(layout)
    return slab, Segments(slab, per_batch=per_batch, max_staleness=1)
