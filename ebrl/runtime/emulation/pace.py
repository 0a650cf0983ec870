"""Waiting as long as the work would take.

A wait that nobody else has a say in is one sleep; what the sleep overran is taken off the next one,
so that timers' lateness does not add up. Work on a shared resource goes on at the worker's part of
it (processor sharing): workers say in the slab that they are at work and how much they wish, and
each looks again at short intervals. When the run stops, so does a wait. What a stage's clock shows
is its work, as a core or a device would count it: what it was told to take, not how long it waited
for its part. Invariant: a worker that is not at work wishes nothing.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.layout import (
    CLOCK_BUSY,
    CLOCK_CORES,
    CLOCK_FIRINGS,
    CLOCK_ITEMS,
    CLOCK_WISH,
    PRODUCED_AT,
    WORK_COUNT,
    WORK_NS,
    WORK_RING,
)
from ebrl.runtime.emulation.cue import Cue, Injection, Load
from ebrl.runtime.slab import Slab

LOOK_EVERY_S = 0.002  # real seconds between looks at a shared resource
LONGEST_S = 0.25  # real seconds without a sign of life
UNIT = 1e-6  # of a wish in the slab
BLOCK = 256


class Pace:
    """One worker's clock. `stopping` and `beat` are the worker's own."""

    def __init__(
        self, cue: Cue, slab: Slab, *, stopping: Callable[[], bool], beat: Callable[[], None]
    ) -> None:
        self._slab = slab
        self._began = slab["produced"][:, PRODUCED_AT]
        self._stopping, self._beat = stopping, beat
        self._debt = 0.0
        self._work_s = 0.0  # in the plan's seconds, since it was last asked for
        self.adopt(cue)

    def adopt(self, cue: Cue) -> None:
        """Play by another cue from now on: the plan has changed."""
        self._cue = cue
        self._late: list[Injection] = list(cue.injections)
        self._fewer = [each for each in cue.injections if each.kind == "cores"]
        self._born = self.now()
        clock = self._slab["clock"]
        self._busy_cores = clock[:, CLOCK_CORES]
        self._jobs = [_Job(cue, load, clock[:, CLOCK_WISH]) for load in cue.loads]
        self._leave()

    def birth(self) -> None:
        """Take the time that a real process would need until it can work."""
        self._alone(self._cue.birth_s / self._cue.speed)

    def spent_ns(self) -> int:
        """Real nanoseconds of work since this was last asked."""
        spent, self._work_s = self._work_s, 0.0
        return round(spent / self._cue.speed * 1e9)

    def now(self) -> float:
        """Emulated seconds since the first environment step; 0 before it."""
        first = self._began[self._began > 0]
        if first.size == 0:
            return 0.0
        return (time.monotonic_ns() - int(first.min())) * 1e-9 * self._cue.speed

    def call(self, size: int) -> None:
        """Take the time of one call of `size` items."""
        job = self._jobs[0]
        medians = job.load.medians
        most = len(medians) - 1
        median = medians[min(size, most)] * max(1.0, size / most)
        seconds = median * job.factor(self._straggle(job)) * self._trouble(job)
        self._work_s += seconds
        seconds *= self._enter() / self._cue.speed
        if job.load.share is None:
            self._alone(seconds)
        else:
            self._together({job: seconds}, 0.0)
        self._leave()

    def update(self) -> None:
        """Take the time of one update. Ranks with devices of their own wait for each other at each
        meeting; those that share one work on until their part is done, however long that takes."""
        meetings = self._cue.meetings
        alone = [job for job in self._jobs if job.load.share is None]
        late = {job: self._trouble(job) for job in self._jobs}
        slow = {job: self._straggle(job) for job in self._jobs}
        parts = {
            job: [job.part(meetings, slow[job]) * late[job] for _ in range(meetings)]
            for job in late
        }
        seconds = sum(max((parts[job][n] for job in alone), default=0.0) for n in range(meetings))
        sharing = {
            job: sum(parts[job]) / self._cue.speed
            for job in self._jobs
            if job.load.share is not None
        }
        self._work_s += sum(parts[self._jobs[0]])
        self._enter()
        if sharing:
            self._together(sharing, seconds / self._cue.speed)
        else:
            self._alone(seconds / self._cue.speed)
        self._alone(self._cue.overhead_s / self._cue.speed)
        self._leave()
        for job in self._jobs[1:]:
            self._note(job, sum(parts[job]) / self._cue.speed)

    def _note(self, job: _Job, seconds: float) -> None:
        """On the clock of a rank that this process plays beside its own."""
        if not job.load.calls:
            return
        row, spent = job.load.row, round(seconds * 1e9)
        clock, work = self._slab["clock"][row], self._slab["work"][row]
        self._slab["work/ring"][row][work[WORK_COUNT] % WORK_RING] = spent, 1
        clock[CLOCK_BUSY] += spent
        clock[CLOCK_FIRINGS] += 1
        clock[CLOCK_ITEMS] += 1
        work[WORK_NS] += spent
        work[WORK_COUNT] += 1

    # -- cores that are gone -----------------------------------------------------------------------

    def _enter(self) -> float:
        """At work on cores: how much longer that takes now for want of them. Only what runs on
        cores alone is held up."""
        if not self._fewer:
            return 1.0
        for job in self._jobs:
            self._busy_cores[job.load.row] = round(job.load.cores / UNIT)
        if self._jobs[0].load.device is not None:
            return 1.0
        now = self.now()
        gone = sum(each.chance for each in self._fewer if now >= each.at_s)
        left = self._cue.cores * max(1e-3, 1.0 - gone)
        return max(1.0, float(self._busy_cores.sum()) * UNIT / left) if gone else 1.0

    def _leave(self) -> None:
        if self._fewer:
            for job in self._jobs:
                self._busy_cores[job.load.row] = 0

    # -- what goes wrong -------------------------------------------------------------------------

    def _trouble(self, job: _Job) -> float:
        """The factor of what was injected by now; a crash or a hang happens here."""
        if not self._late:
            return 1.0
        now, factor = self.now(), 1.0
        for each in tuple(self._late):
            if each.index not in (None, job.load.index) or each.kind == "cores":
                continue
            if each.kind == "device":
                if each.device == job.load.device:
                    factor *= 1.0 + (each.factor - 1.0) * each.grown(now)
            elif each.kind == "drift":
                factor *= 1.0 + (each.factor - 1.0) * each.grown(now)
            elif each.kind == "straggle":
                continue  # call by call, of which an update may have many
            elif now >= each.at_s:
                self._late.remove(each)
                if self._born <= each.at_s:  # not again in the worker that took its place
                    os.kill(os.getpid(), signal.SIGKILL if each.kind == "crash" else signal.SIGSTOP)
        return factor

    def _straggle(self, job: _Job) -> list[Injection]:
        """What may befall each of its calls by now."""
        return [
            each
            for each in self._late
            if each.kind == "straggle"
            and each.index in (None, job.load.index)
            and (each.at_s == 0.0 or self.now() >= each.at_s)
        ]

    # -- waiting ---------------------------------------------------------------------------------

    def _together(self, left: dict[_Job, float], alone: float) -> None:
        """Work that is shared with other workers, beside a wait of `alone` real seconds."""
        left = {job: seconds for job, seconds in left.items() if seconds > 0}
        begin = last = time.monotonic()
        try:
            for job in left:
                job.begin()
            while left and not self._stopping():
                rates = {job: job.rate() for job in left}
                nearest = min(seconds / rates[job] for job, seconds in left.items())
                self._sleep(min(nearest, LOOK_EVERY_S))
                now = time.monotonic()
                for job in tuple(left):
                    left[job] -= (now - last) * rates[job]
                    if left[job] <= 0:
                        job.end()
                        del left[job]
                last = now
        finally:
            for job in left:
                job.end()
        self._alone(max(0.0, alone - (time.monotonic() - begin)))

    def _alone(self, seconds: float) -> None:
        """A wait that is only ours."""
        paid = min(self._debt, seconds)
        self._debt -= paid
        end = time.monotonic() + seconds - paid
        while (left := end - time.monotonic()) > 0 and not self._stopping():
            self._sleep(min(left, LONGEST_S))
        self._debt += time.monotonic() - end if seconds > paid else 0.0

    def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        self._beat()


class _Job:
    """One replica's work: how long, and at which part of what it shares."""

    def __init__(self, cue: Cue, load: Load, wishes: NDArray[np.int64]) -> None:
        self.load = load
        self._wishes = wishes
        self._members = list(load.share.members) if load.share is not None else []
        sequence = np.random.SeedSequence(cue.seed, spawn_key=load.place)
        self._generator = np.random.Generator(np.random.PCG64(sequence))
        self._block: Sequence[float] | NDArray[np.float64] = ()
        self._at = 0
        self.end()  # whoever had this row before may have died at work

    def part(self, meetings: int, slow: Sequence[Injection] = ()) -> float:
        """Seconds from one meeting to the next, drawn anew."""
        calls = self.load.calls / meetings
        factors = [self.factor(slow) for _ in range(max(1, math.ceil(calls)))]
        return calls * self.load.medians[-1] * sum(factors) / len(factors)

    def factor(self, slow: Sequence[Injection] = ()) -> float:
        """Of one call, on its median time: log-normal, drawn in blocks; `slow`: if it straggles."""
        factor = 1.0
        for each in slow:
            if self.chance() < each.chance:
                factor *= each.factor
        if not self.load.sigma:
            return factor
        if self._at == len(self._block):
            self._block = np.exp(self.load.sigma * self._generator.standard_normal(BLOCK))
            self._at = 0
        self._at += 1
        return factor * float(self._block[self._at - 1])

    def chance(self) -> float:
        return float(self._generator.random())

    def begin(self) -> None:
        self._wishes[self.load.row] = round(self.load.wish / UNIT)

    def end(self) -> None:
        self._wishes[self.load.row] = 0

    def rate(self) -> float:
        """Its speed now: its part of what it shares."""
        share = self.load.share
        assert share is not None
        wanted = max(int(self._wishes[self._members].sum()) * UNIT, self.load.wish)
        if share.turns:
            return max(self.load.wish / wanted, 1e-3)
        return min(1.0, share.capacity / wanted)
