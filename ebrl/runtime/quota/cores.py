"""Cores: affinity of running processes, changed from outside, at once, for every thread.

`sched_setaffinity` moves one thread; a process that has imported torch has many. So all of its
threads are moved, and looked at again until none was missed: a thread that is born meanwhile has
its parent's affinity, old or new. Invariant: after `apply`, no thread of a worker runs elsewhere.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from ebrl.errors import RunError
from ebrl.runtime.quota.protocol import Capabilities, Layout, Quota

PASSES = 8  # over a process's threads; two are enough unless threads are born all the time


def pin(pid: int, cores: Iterable[int]) -> None:
    """Let every thread of a process run on `cores` alone. A process that is gone is let be."""
    wanted = frozenset(cores)
    for _ in range(PASSES):
        moved = False
        for thread in threads(pid):
            with contextlib.suppress(ProcessLookupError):
                if os.sched_getaffinity(thread) != wanted:
                    os.sched_setaffinity(thread, wanted)
                    moved = True
        if not moved:
            return


def threads(pid: int) -> tuple[int, ...]:
    """Ids of a process's threads; empty when it is gone."""
    try:
        return tuple(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return ()


class Cores:
    """Affinity of the workers of one machine. `pid_of` tells a worker's process, None: none now."""

    def __init__(self, pid_of: Callable[[str], int | None], cores: Iterable[int]) -> None:
        self._pid_of = pid_of
        self._cores = frozenset(cores)
        self._applied: dict[str, frozenset[int]] = {}

    def capabilities(self) -> Capabilities:
        return Capabilities(
            mechanism="affinity", unit="cores", most=len(self._cores), in_place=True
        )

    def realise(self, request: Sequence[Quota]) -> Layout:
        """As asked; no cores named means all of them."""
        for each in request:
            if missing := set(each.cores) - self._cores:
                raise RunError(
                    "quota-too-large",
                    f"{each.worker} asks for cores {sorted(missing)}, which this run has not",
                    hint="plan again for this machine",
                )
        everything = tuple(sorted(self._cores))
        return Layout(
            granted=tuple(Quota(worker=q.worker, cores=q.cores or everything) for q in request)
        )

    def apply(self, layout: Layout) -> frozenset[str]:
        for each in layout.granted:
            self._applied[each.worker] = frozenset(each.cores)
            pid = self._pid_of(each.worker)
            if pid is not None:
                pin(pid, each.cores)
        return frozenset()

    def stream(self, worker: str) -> int:
        del worker
        return 0

    def client_environment(self, worker: str) -> Mapping[str, str]:
        del worker
        return {}

    def verify(self) -> tuple[str, ...]:
        found = []
        for worker, wanted in self._applied.items():
            pid = self._pid_of(worker)
            for thread in () if pid is None else threads(pid):
                with contextlib.suppress(ProcessLookupError):
                    if (here := os.sched_getaffinity(thread)) != wanted:
                        found.append(
                            f"thread {thread} of {worker} may run on {sorted(here)}, "
                            f"not on {sorted(wanted)} alone"
                        )
        return tuple(found)

    def close(self) -> None:
        self._applied.clear()
