"""Where every byte of the shared memory lies: arithmetic that plan and runtime share.

Invariant: the runtime allocates exactly `slab_layout(...).total_bytes`, so the plan's figure is the
truth, to the byte. Arrays start at multiples of 64 bytes (a cache line), which two writers of
different arrays therefore never share.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from ebrl.frontend.program import Program

ALIGNMENT = 64
DISCARD_REASONS = (
    "stale",
    "interrupted",
    "worker-lost",
    "environment-failed",
    "learner-lost",
    "diverged",
)
PRODUCED, PRODUCED_AT, PRODUCED_HANDED = range(3)  # columns of `produced`: steps made, ns of the
# first, steps that have left the worker's hands
CLOCK_BUSY, CLOCK_FIRINGS, CLOCK_ITEMS, CLOCK_BEAT, CLOCK_RETIRE, CLOCK_WISH, CLOCK_CORES = range(7)
# columns of `clock`; the last two: what an emulated worker at work wishes of what it shares, and of
# the cores of its machine
WORK_NS, WORK_COUNT = range(2)  # columns of `work`: seconds spent, as a core or device counts them
WORK_RING = 64  # the last firings of each worker: (nanoseconds of work, items)
CONTROL_SEQUENCE, CONTROL_BATCH, CONTROL_THREADS, CONTROL_GROUP, CONTROL_ACTIVE = range(5)
SPARE_WORKERS = 4  # rows for workers that another plan has and this one has not
JOURNAL = 24  # words of the head of a change of owner, see ebrl/runtime/books.py


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One named array."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Fields and the offset of each, in order."""

    fields: tuple[Field, ...]
    offsets: tuple[int, ...]
    total_bytes: int


def segment_fields(program: Program) -> tuple[Field, ...]:
    """The arrays of one segment: T decisions of one environment (T + 1 observations)."""
    environment, training = program.environment, program.training
    assert environment is not None
    assert training is not None
    horizon = training.horizon
    chunk = environment.action.chunk
    action = environment.action.tensor
    observations = tuple(
        Field(name=f"obs/{path}", dtype=tensor.dtype, shape=(horizon + 1, *_ints(tensor.shape)))
        for path, tensor in environment.obs.items()
    )
    return (
        *observations,
        Field(name="action", dtype=action.dtype, shape=(horizon, *_ints(action.shape))),
        Field(name="log_prob", dtype="float32", shape=(horizon,)),
        Field(name="version", dtype="int64", shape=(horizon,)),
        Field(name="reward", dtype="float32", shape=(horizon, chunk)),
        Field(name="steps", dtype="uint8", shape=(horizon,)),
        Field(name="terminated", dtype="bool", shape=(horizon,)),
        Field(name="truncated", dtype="bool", shape=(horizon,)),
    )


def segment_bytes(program: Program) -> int:
    """Bytes of one segment, without alignment."""
    return sum(field.nbytes for field in segment_fields(program))


def segment_count(program: Program, environments: int, max_staleness: int) -> int:
    """Segments that can be alive at once, from the staleness bound.

    Admission lets at most (η + 1) batches be started and untrained, those that an update holds
    included. So the bound is (η + 1)·B, and at least a batch and one segment an environment: every
    environment can run.
    """
    batch = segments_per_batch(program)
    return max((max_staleness + 1) * batch, batch + environments)


def segments_per_batch(program: Program) -> int:
    """B: segments in one update."""
    environment, training = program.environment, program.training
    assert environment is not None
    assert training is not None
    return max(1, math.ceil(training.batch / (training.horizon * environment.action.chunk)))


def control_fields(environments: int, segments: int, workers: int) -> tuple[Field, ...]:
    """Who owns what, and the counters. One writer each, or under the slab's lock."""
    return (
        Field(name="stop", dtype="int64", shape=(1,)),
        Field(name="weights/version", dtype="int64", shape=(1,)),  # newest published; -1: none yet
        Field(name="weights/writing", dtype="int64", shape=(1,)),  # being written now, or newest
        Field(name="started", dtype="int64", shape=(1,)),  # segments started and not thrown away
        Field(name="order", dtype="int64", shape=(1,)),  # segments ever started
        Field(name="released", dtype="int64", shape=(1,)),  # times that segments became free
        Field(name="trained", dtype="int64", shape=(1,)),  # environment steps trained on
        Field(name="discarded", dtype="int64", shape=(len(DISCARD_REASONS),)),
        Field(name="staleness", dtype="int64", shape=(3,)),  # sum over steps, steps, max
        Field(name="produced", dtype="int64", shape=(workers, 8)),  # columns above; a cache line
        Field(name="clock", dtype="int64", shape=(workers, 8)),  # columns above; a cache line
        Field(name="work", dtype="int64", shape=(workers, 8)),
        Field(name="work/ring", dtype="int64", shape=(workers, WORK_RING, 2)),
        Field(name="control", dtype="int64", shape=(workers, 8)),  # what a worker is told meanwhile
        Field(name="train/turn", dtype="int64", shape=(2,)),  # updates announced, their segments
        Field(name="train/batch", dtype="int64", shape=(segments,)),  # of the last one announced
        Field(name="journal", dtype="int64", shape=(JOURNAL,)),
        Field(name="journal/segments", dtype="int64", shape=(segments,)),
        Field(name="journal/started", dtype="int64", shape=(segments,)),
        Field(name="env/state", dtype="uint8", shape=(environments,)),
        Field(name="env/segment", dtype="int64", shape=(environments,)),
        Field(name="env/cursor", dtype="int64", shape=(environments,)),
        Field(name="env/decisions", dtype="int64", shape=(environments,)),  # ever; keys the noise
        Field(name="env/started", dtype="int64", shape=(environments,)),  # `started` of each
        Field(name="env/lives", dtype="int64", shape=(environments,)),  # times built; keys the seed
        Field(name="segment/state", dtype="uint8", shape=(segments,)),
        Field(name="segment/environment", dtype="int64", shape=(segments,)),
        Field(name="segment/order", dtype="int64", shape=(segments,)),  # in order of starting
    )


def slab_layout(
    program: Program, *, environments: int, segments: int, workers: int, weights_bytes: int
) -> Layout:
    """Everything shared: control, the segments' arrays (segment-major), two weight buffers."""
    fields = [
        *control_fields(environments, segments, workers + SPARE_WORKERS),
        *(
            Field(name=field.name, dtype=field.dtype, shape=(segments, *field.shape))
            for field in segment_fields(program)
        ),
        Field(name="weights", dtype="float32", shape=(2, math.ceil(weights_bytes / 4))),
    ]
    offsets, cursor = [], 0
    for field in fields:
        offsets.append(cursor)
        cursor += math.ceil(field.nbytes / ALIGNMENT) * ALIGNMENT
    return Layout(fields=tuple(fields), offsets=tuple(offsets), total_bytes=cursor)


def _ints(shape: tuple[int | str, ...]) -> tuple[int, ...]:
    dims = tuple(dim for dim in shape if isinstance(dim, int))
    assert len(dims) == len(shape), f"unbound dimension in {shape}"
    return dims
