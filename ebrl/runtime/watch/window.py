"""What one stretch of a run looked like: of each stage the work of an item, its spread, how large
batches were, how long items waited; and who else had the machine.

Invariant: a window is a difference of counters that only grow, so a window that was late or missed
loses nothing but resolution; taking one costs the workers nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ebrl.planner.layout import (
    CLOCK_BUSY,
    CLOCK_FIRINGS,
    CLOCK_ITEMS,
    WORK_COUNT,
    WORK_NS,
    WORK_RING,
)
from ebrl.runtime.segments import NEEDS_ACTION, NEEDS_STEP, READY
from ebrl.runtime.slab import Slab

QUANTILES = (0.5, 0.95)


class Part(NamedTuple):
    """One replica's share of a window: as in `StageWindow`."""

    work_s: float
    batch: float


class StageWindow(msgspec.Struct, frozen=True, kw_only=True):
    """One stage, all its replicas together. `work_s` is of an item: CPU seconds, or seconds of a
    device; `p50_s` and `p95_s` of a batch, over the last firings; `queue` is how many items waited
    on average, so by Little's law each waited `queue / items_per_s`. `parts`: by replica, those
    that worked."""

    firings: int
    items: int
    work_s: float
    batch: float
    p50_s: float
    p95_s: float
    busy: float  # part of the time, of each replica
    queue: float
    parts: dict[str, Part] = {}

    def wait_s(self, seconds: float) -> float:
        return self.queue * seconds / self.items if self.items else 0.0


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """`at_s` since the run's first step, at its end. `ours` and `foreign`: cores kept busy by this
    run and by others that are not meant to give way (nice); `trained`: environment steps."""

    at_s: float
    seconds: float
    stages: dict[str, StageWindow]
    trained: int
    ours: float
    foreign: float
    settling: bool = False  # soon after the start or a switch: not what the run is like


class Row(NamedTuple):
    """One replica, by its row in the slab. `share`: items of an update that a rank takes, in
    `calls` calls; 0: it counts its items itself."""

    row: int
    replica: int
    share: int = 0
    calls: int = 1


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """A stage's replicas, and its kind."""

    stage: str
    kind: str
    rows: tuple[Row, ...]


class Viewer:
    """Takes windows of a slab. `look` now and then (for queues), `take` at the end of a window."""

    def __init__(
        self, slab: Slab, cores: Iterable[int], *, taken: Callable[[], float] | None = None
    ) -> None:
        """`taken`: asked for the cores that others keep busy, where the run's machine is played."""
        self._slab, self._taken = slab, taken
        self._cores = frozenset(cores)
        self._looks: list[tuple[int, int, int]] = []
        self._before: dict[int, tuple[int, int, int, int, int]] = {}
        self._at = time.monotonic()
        self._trained = int(slab["trained"][0])
        self._busy = busy_seconds(self._cores)
        self._mine: dict[int, float] = {}

    def look(self) -> None:
        """How much waits now: for an action, for a step, for an update (in environment steps)."""
        state = self._slab["env/state"]
        ready = self._slab["segment/state"] == READY
        self._looks.append(
            (
                int(np.count_nonzero(state == NEEDS_ACTION)),
                int(np.count_nonzero(state == NEEDS_STEP)),
                int(self._slab["steps"][ready].sum(dtype=np.int64)) if ready.any() else 0,
            )
        )

    def take(
        self, stages: Sequence[Rows], pids: Iterable[int], at_s: float, *, speed: float = 1.0
    ) -> Window:
        """The window since the last one; all times in the plan's seconds."""
        now = time.monotonic()
        seconds, self._at = max(now - self._at, 1e-9), now
        queues = np.mean(self._looks, axis=0) if self._looks else np.zeros(3)
        self._looks.clear()
        waiting = dict(zip(("generate", "simulate", "train"), map(float, queues), strict=True))
        found = {
            each.stage: self._stage(each, seconds, waiting.get(each.kind, 0.0), speed)
            for each in stages
        }
        trained = int(self._slab["trained"][0])
        done, self._trained = trained - self._trained, trained
        ours, foreign = self._cores_used(pids, seconds)
        if self._taken is not None:
            ours, foreign = 0.0, self._taken()
        return Window(
            at_s=at_s,
            seconds=seconds * speed,
            stages={name: window for name, window in found.items() if window is not None},
            trained=done,
            ours=ours,
            foreign=foreign,
        )

    def _stage(self, stage: Rows, seconds: float, queue: float, speed: float) -> StageWindow | None:
        clock, work, ring = (self._slab[name] for name in ("clock", "work", "work/ring"))
        total = np.zeros(4)
        batches: list[float] = []
        parts: dict[str, Part] = {}
        for row, index, share, calls in stage.rows:
            now = (
                int(clock[row, CLOCK_BUSY]),
                int(clock[row, CLOCK_FIRINGS]),
                int(clock[row, CLOCK_ITEMS]),
                int(work[row, WORK_NS]),
                int(work[row, WORK_COUNT]),
            )
            before = self._before.get(row, (0,) * 5)
            self._before[row] = now
            done = np.subtract(now[:4], before[:4])
            if share:  # of every update, whatever it says itself
                done[2] = done[1] * share
            total += done
            if done[1] > 0 and done[2] > 0:
                size = share / calls if share else done[2] / done[1]
                work_s = float(done[3] / 1e9 / done[2]) * speed
                parts[str(index)] = Part(work_s, float(size))
            fresh = min(now[4] - before[4], WORK_RING - 1)
            places = np.arange(now[4] - fresh, now[4]) % WORK_RING
            batches += [float(ns) for ns in ring[row, places, 0]]
        busy, firings, items, spent = map(float, total)
        if firings <= 0 or items <= 0 or not batches:
            return None
        p50, p95 = (float(value) / 1e9 * speed for value in np.quantile(batches, QUANTILES))
        return StageWindow(
            firings=int(firings),
            items=int(items),
            work_s=spent / 1e9 / items * speed,
            batch=float(np.mean([part.batch for part in parts.values()]))
            if stage.rows[0].share
            else items / firings,
            p50_s=p50,
            p95_s=p95,
            busy=busy / 1e9 / seconds / len(stage.rows),
            queue=queue,
            parts=parts,
        )

    def _cores_used(self, pids: Iterable[int], seconds: float) -> tuple[float, float]:
        busy = busy_seconds(self._cores)
        all_of_us = {pid: cpu_seconds(pid) for pid in (os.getpid(), *pids)}
        ours = sum(max(0.0, spent - self._mine.get(pid, spent)) for pid, spent in all_of_us.items())
        foreign = (busy - self._busy - ours) / seconds
        self._busy, self._mine = busy, all_of_us
        return ours / seconds, max(0.0, foreign)


def busy_seconds(cores: Iterable[int]) -> float:
    """Seconds that these cores have worked, ever, but for processes that give way (nice); what the
    hypervisor gave to others counts as foreign work."""
    names = {f"cpu{core}" for core in cores}
    ticks = 0
    try:
        with open("/proc/stat", encoding="ascii") as file:
            for line in file:
                name, *values = line.split()
                if name in names:
                    user, _nice, system, _idle, _io, irq, soft, steal = map(int, values[:8])
                    ticks += user + system + irq + soft + steal
    except (OSError, ValueError):
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and its threads so far; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def merged(windows: Sequence[Window]) -> Mapping[str, StageWindow]:
    """Several windows as one: totals added, quantiles and queues averaged by items."""
    found: dict[str, StageWindow] = {}
    for name in {name for window in windows for name in window.stages}:
        mine = [window.stages[name] for window in windows if name in window.stages]
        items = sum(each.items for each in mine)
        firings = sum(each.firings for each in mine)
        weights = [each.items / items for each in mine]

        def mean(key: str, mine: list[StageWindow] = mine, w: list[float] = weights) -> float:
            return float(sum(getattr(e, key) * part for e, part in zip(mine, w, strict=True)))

        found[name] = StageWindow(
            firings=firings,
            items=items,
            work_s=mean("work_s"),
            batch=items / sum(each.items / each.batch for each in mine),
            p50_s=mean("p50_s"),
            p95_s=mean("p95_s"),
            busy=mean("busy"),
            queue=mean("queue"),
        )
    return found
