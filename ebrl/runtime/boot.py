"""What a worker process is told when it starts, as JSON on its standard input.

Invariant: a worker knows the run only by this and by the descriptors it inherits; nothing is
pickled, and nothing is forked from a process that has imported torch or opened a device.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal

import msgspec

from ebrl.planner.layout import Layout
from ebrl.runtime.emulation.cue import Cue

Role = Literal["simulate", "generate", "train"]
OWNER = "EBRL_WORKER"  # in the environment of what a worker starts: its process id
LOADER = "ebrl.frontend.load"  # by name: the runtime knows no frontend, only where stages come from


class Boot(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's instructions. Descriptors are inherited; bells are by worker, "simulate 0"."""

    role: Role
    index: int
    worker: int  # row of its counters in the slab
    graph: str
    graph_sha256: str | None  # None: whatever the file says now
    stage: str
    policy_stage: str  # name of the generate stage (the learner builds the same network)
    program: msgspec.Raw  # ebrl.frontend.program.Program
    layout: Layout
    slab_fd: int
    pipe_fd: int
    bells: dict[str, int]
    core_set: tuple[int, ...]
    threads: int
    device: str  # torch's name: "cpu", "cuda:0"
    seed: int
    batch: int
    first: int  # environments [first, last)
    last: int
    group: int
    groups: tuple[tuple[int, int], ...]  # fixed batches of the synchronous mode
    simulators: tuple[tuple[int, int], ...]  # environments of each simulate worker
    generators: tuple[tuple[int, int], ...]  # environments of each generate worker
    per_batch: int
    max_staleness: int
    total_steps: int | None
    run_dir: str
    run_pid: int  # who dies with it
    checkpoint_every_s: float
    checkpoint_every_updates: int | None  # of the synchronous mode; there, episodes begin anew
    resume: str | None
    trained_before: int  # environment steps, by the runs that this one continues
    memory_fds: tuple[int, int, int]  # where the learner keeps its newest state, see memory.py
    plan_sha256: str
    recycle_every: int | None = None  # episodes after which an environment is built anew
    ranks: int = 1  # learners that share each update
    environment: dict[str, str | None] = {}  # set, or unset, before CUDA is up
    patience: int = 5  # faults in a row that are borne
    emulation: Cue | None = None  # None: the stage's real body
    trace_records: int = 0  # firings that its ring holds, see ring.py; 0: it keeps none
    life: int = 0  # times that this worker has been started before

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}"


def load_stage(graph: str, sha256: str | None, name: str) -> Any:
    """A stage object of the user's, from the graph file; refused where the file has changed."""
    return importlib.import_module(LOADER).load_stage(graph, sha256, name)
