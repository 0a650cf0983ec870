"""Waiting as long as the work would take.

A wait that nobody else has a say in is one sleep; what the sleep overran is taken off the next one,
so that timers' lateness does not add up. Work on a shared resource goes on at the worker's part of
it (processor sharing): workers say in the slab that they are at work and how much they wish, and
each looks again at short intervals. When the run stops, so does a wait. Invariant: a worker that is
not at work wishes nothing.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.layout import CLOCK_WISH, PRODUCED_AT
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
        self._cue = cue
        self._began = slab["produced"][:, PRODUCED_AT]
        self._stopping, self._beat = stopping, beat
        self._debt = 0.0
        self._late: list[Injection] = list(cue.injections)
        self._born = self.now()
        self._jobs = [_Job(cue, load, slab["clock"][:, CLOCK_WISH]) for load in cue.loads]

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
        seconds = median * job.factor() * self._trouble(job)
        if job.load.share is None:
            self._alone(seconds / self._cue.speed)
        else:
            self._together({job: seconds / self._cue.speed}, 0.0)

    def update(self) -> None:
        """Take the time of one update. Ranks with devices of their own wait for each other at each
        meeting; those that share one work on until their part is done, however long that takes."""
        meetings = self._cue.meetings
        alone = [job for job in self._jobs if job.load.share is None]
        late = {job: self._trouble(job) for job in self._jobs}
        seconds = sum(
            max((job.part(meetings) * late[job] for job in alone), default=0.0)
            for _ in range(meetings)
        )
        sharing = {
            job: sum(job.part(meetings) for _ in range(meetings)) * late[job] / self._cue.speed
            for job in self._jobs
            if job.load.share is not None
        }
        if sharing:
            self._together(sharing, seconds / self._cue.speed)
        else:
            self._alone(seconds / self._cue.speed)
        self._alone(self._cue.overhead_s / self._cue.speed)

    # -- what goes wrong -------------------------------------------------------------------------

    def _trouble(self, job: _Job) -> float:
        """The factor of what was injected by now; a crash or a hang happens here."""
        if not self._late:
            return 1.0
        now, factor = self.now(), 1.0
        for each in tuple(self._late):
            if each.index not in (None, job.load.index):
                continue
            if each.kind == "drift":
                if now >= each.at_s:
                    grown = (now - each.at_s) / each.ramp_s if each.ramp_s > 0 else 1.0
                    factor *= 1.0 + (each.factor - 1.0) * min(1.0, grown)
            elif each.kind == "straggle":
                if now >= each.at_s and job.chance() < each.chance:
                    factor *= each.factor
            elif now >= each.at_s:
                self._late.remove(each)
                if self._born <= each.at_s:  # not again in the worker that took its place
                    os.kill(os.getpid(), signal.SIGKILL if each.kind == "crash" else signal.SIGSTOP)
        return factor

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

    def part(self, meetings: int) -> float:
        """Seconds from one meeting to the next, drawn anew."""
        calls = self.load.calls / meetings
        factors = [self.factor() for _ in range(max(1, math.ceil(calls)))]
        return calls * self.load.medians[-1] * sum(factors) / len(factors)

    def factor(self) -> float:
        """Log-normal, on a median time; drawn in blocks."""
        if not self.load.sigma:
            return 1.0
        if self._at == len(self._block):
            self._block = np.exp(self.load.sigma * self._generator.standard_normal(BLOCK))
            self._at = 0
        self._at += 1
        return float(self._block[self._at - 1])

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
