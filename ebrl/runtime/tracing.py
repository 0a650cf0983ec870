"""A run's timeline: what its workers left in their rings, with queues, versions and faults.

Seen from the run, which looks at the queues when it looks at everything else; what the workers did
is read when they are gone. Invariant: what is kept while the run goes on is bounded, however long
it goes on; of a long run the timeline is its end.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ebrl.errors import RunError
from ebrl.planner.plan import Plan
from ebrl.runtime import ring
from ebrl.runtime.rundir import EVENTS, PROGRESS
from ebrl.runtime.segments import NEEDS_ACTION, NEEDS_STEP, PARKED, READY
from ebrl.trace import Trace

if TYPE_CHECKING:
    from ebrl.runtime.run import Run

ALL_BYTES = 12 << 20  # of all rings: some 400,000 firings, a JSON of fifty megabytes
FEWEST, MOST = 1 << 12, 1 << 18  # records of one ring
LOOKS = 1 << 14  # at the queues: two hours of them
CLUSTER = "cluster"
MARKED = {  # events that are marks, and how they are named
    "fault": "fault",
    "recovered": "recovered",
    "environment-failed": "environment failed",
    "decision": "decision",
    "retired": "retired",
    "gave-up": "gave up",
}


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, from `begin_s` to `end_s` after the first firing, in the plan's seconds.
    `whole`: it begins where the run did."""

    trace: Trace
    begin_s: float
    end_s: float
    whole: bool


class Tracer:
    """Of one run. Make it before the workers start, `look` now and then, `collect` at the end."""

    def __init__(self, run_dir: Path, plan: Plan) -> None:
        """`plan`: as it was made, with the nodes that it is for."""
        self._run_dir, self._plan = run_dir, plan
        self._looks: deque[tuple[float, int, int, int, int]] = deque(maxlen=LOOKS)
        workers = sum(len(stage.replicas) for stage in plan.stages)
        self.records = max(FEWEST, min(MOST, ALL_BYTES // workers // ring.RECORD.size))
        self._before = {name: _size(run_dir / name) for name in (PROGRESS, EVENTS)}
        folder = run_dir / ring.FOLDER
        try:
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
            folder.mkdir()
        except OSError as error:
            raise RunError(
                "trace-unwritable",
                f"cannot keep what a trace is made of: {error.strerror}",
                where=str(folder),
                hint="give another run directory with --logdir DIR",
            ) from error

    def look(self, run: Run) -> None:
        """Count who waits, now."""
        counts = np.bincount(run.slab["env/state"], minlength=4)
        ready = np.count_nonzero(run.slab["segment/state"] == READY)
        self._looks.append(
            (
                time.monotonic(),
                int(counts[NEEDS_STEP]),
                int(counts[NEEDS_ACTION]),
                int(counts[PARKED]),
                int(ready),
            )
        )

    def collect(self, run: Run) -> Timeline:
        """The timeline of a run that has ended. Takes the rings away."""
        rows: dict[str, NDArray[np.int64]] = {}
        since = run.progress.began
        whole = True
        for path in sorted((self._run_dir / ring.FOLDER).glob("*.ring")):
            found, dropped = ring.read(path)
            if len(found):
                rows[path.stem] = found
            if dropped:  # before this, not everybody is there
                whole, since = False, max(since, float(found[0, ring.BEGIN_NS]) / 1e9)
        first = run.progress.first_step_at or run.progress.began
        zero = first  # or earlier: the first action comes before the first step
        if whole:
            zero = min([first, *(float(each[0, ring.BEGIN_NS]) / 1e9 for each in rows.values())])
        clock = _Clock(zero, run.progress.speed)
        trace, end_s = Trace(), 0.0
        for name, each in rows.items():
            end_s = max(end_s, self._spans(trace, name, each, since, clock))
        self._count(trace, since, clock)
        self._stale(trace, since, clock, first)
        self._mark(trace, since, clock, run.progress.began)
        shutil.rmtree(self._run_dir / ring.FOLDER, ignore_errors=True)
        return Timeline(trace=trace, begin_s=clock.told(since), end_s=end_s, whole=whole)

    def _spans(
        self, trace: Trace, name: str, rows: NDArray[np.int64], since: float, clock: _Clock
    ) -> float:
        """A worker's firings that ended after `since`; when the last of them did."""
        role, _, index = name.rpartition("-")
        process, thread = self._track(role, int(index))
        stage = thread.rpartition(" ")[0]
        rows = rows[rows[:, ring.END_NS] > since * 1e9]
        times = np.maximum(rows[:, : ring.ITEMS] / 1e9 - clock.zero, 0.0) * clock.speed
        for (begin, end), (items, version) in zip(
            times.tolist(), rows[:, ring.ITEMS :].tolist(), strict=True
        ):
            told = {"version": version} if role == "train" else {"items": items, "version": version}
            trace.span(process, thread, stage, begin, end - begin, told)
            if role == "train" and index == "0":
                trace.mark(CLUSTER, "", "version", end, {"version": version})
        return float(times[-1, 1]) if len(times) else 0.0

    def _track(self, role: str, index: int) -> tuple[str, str]:
        """Process and thread of a worker, as the simulation names them."""
        stage = self._plan.of_kind(role)[0]
        replicas = stage.replicas  # another plan may have more of them
        return replicas[min(index, len(replicas) - 1)].node, f"{stage.name} {index}"

    def _count(self, trace: Trace, since: float, clock: _Clock) -> None:
        simulate, generate = (self._plan.of_kind(kind)[0].name for kind in ("simulate", "generate"))
        for at, steps, actions, parked, ready in self._looks:
            if at < since:
                continue
            for name, unit, value in (
                (f"{simulate}: waiting or at work", "environments", steps),
                (f"{generate}: waiting or at work", "environments", actions),
                ("environments parked", "environments", parked),
                ("segments ready", "segments", ready),
            ):
                trace.counter(CLUSTER, name, clock.told(at), {unit: value})

    def _stale(self, trace: Trace, since: float, clock: _Clock, first: float) -> None:
        """Staleness of each update, as the run has written it down."""
        for line in self._lines(PROGRESS):
            at = first + line["seconds"]
            if at >= since:
                value = {"versions": round(float(line["staleness_mean"]), 6)}
                trace.counter(CLUSTER, "staleness", clock.told(at), value)

    def _mark(self, trace: Trace, since: float, clock: _Clock, began: float) -> None:
        """What the diary tells; its own clock starts with the run."""
        for line in self._lines(EVENTS):
            name, at = MARKED.get(line["event"]), began + line["seconds"]
            if name is None or at < since:
                continue
            role, _, index = str(line.get("worker", "")).partition(" ")
            track = self._track(role, int(index)) if index.isdigit() else (CLUSTER, "")
            told: dict[str, float | int | str] = {
                key: line[key] for key in ("worker", "message", "recovery_s") if key in line
            }
            trace.mark(*track, name, clock.told(at), told)

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        """What this run has added to a file of its directory; a line that was cut is left out."""
        path = self._run_dir / name
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._before[name])
            for line in file:
                if line.endswith(b"\n"):
                    yield msgspec.json.decode(line)


class _Clock(msgspec.Struct, frozen=True):
    """From the monotonic clock to the timeline's: seconds of the plan since the first firing."""

    zero: float
    speed: float

    def told(self, at: float) -> float:
        return max(0.0, at - self.zero) * self.speed  # a fault while starting is at its edge


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
