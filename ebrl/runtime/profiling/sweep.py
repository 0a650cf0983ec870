"""The thorough profiling: every stage over its quotas and batches, until it is known well enough.

Looks, on the same processes. *First*, the corners of each stage's grid, a few slices each.
*Company*: each stage alone, then in pairs, then all together, which gives the factors by which
stages slow each other down. *Rounds*: the planner is asked which places the best plan's throughput
still depends on, unmeasured ones bounded by their neighbours; the better half of them is measured
twice as long as the last time, and so on (successive halving), until none matters whose interval is
wider than the precision asked for, or the budget is spent. *Rest*: if there is time left, a few
slices of what did not matter, for whoever reads the table.

On one core, a time is taken while the other stages run, because it is in that company that a plan
uses it; on several cores, or on a device, alone. Invariant: whatever is reported rests on the
slices of the journal, and a second profiling reads as what it is: another sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ebrl.planner.hardware import Cluster
from ebrl.planner.plan import Plan, Program
from ebrl.planner.profile import CPU, Point, Together
from ebrl.runtime.profiling import grid
from ebrl.runtime.profiling.asking import Ask, Request, Slice
from ebrl.runtime.profiling.bench import Bench, Benches
from ebrl.runtime.profiling.grid import Site
from ebrl.runtime.profiling.journal import Entry, Journal
from ebrl.runtime.profiling.tally import Interval, Place, Tally
from ebrl.runtime.profiling.worth import MATTERS, Judge, Times

Company = tuple[str, ...]  # stages that run at the same time, sorted; one name a process
Say = Callable[[str, float], None]  # what is being done, and the part of the budget that is spent

SLICE_S = 0.15
LEAST = 6  # slices of each place: the fewest that have an interval
FIRST_SHARE, COMPANY_SHARE = 0.35, 0.3  # of the budget, at most


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a place. `alone_s`: the median without company, where it was looked at."""

    place: Place
    interval: Interval
    slices: int
    bytes: int
    worth: float
    alone_s: float | None = None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A profiling's outcome. `open`: places that still matter and are less precise than asked."""

    points: tuple[Point, ...]
    together: tuple[Together, ...]
    rows: tuple[Row, ...]
    weights_bytes: int
    plan: Plan | None
    copies: tuple[tuple[str, int, Interval], ...]  # of a stage alone: how many at once, and then
    open: tuple[Place, ...]
    resumed: int
    spent_s: float


class Sweep:
    """One profiling. `budget_s` counts from when the stages are built."""

    def __init__(
        self,
        program: Program,
        cluster: Cluster,
        here: Site,
        requests: Sequence[Request],
        *,
        budget_s: float,
        precision: float,
        journal: Journal,
        say: Say,
    ) -> None:
        self._here, self._requests, self._journal, self._say = here, requests, journal, say
        self._budget_s, self._precision = budget_s, precision
        self._began = time.monotonic()
        self._stages = {request.stage: request for request in requests}
        self._everybody: Company = tuple(sorted(request.stage for request in requests))
        self._places = {r.stage: grid.places(r, here) for r in self._stages.values()}
        self._tallies: dict[Company, dict[Place, Tally]] = {}
        self._judge = Judge(program, cluster, self._profile)
        self._resumed = 0
        for entry in journal.found:
            place = Place(entry.stage, entry.sms, entry.cores, entry.batch)
            if place in self._places.get(entry.stage, ()):
                self._resumed += 1
                self._tally(entry.company, place).add(
                    entry.seconds, entry.bytes, entry.device_bytes
                )

    def run(self) -> Measured:
        """Measure. Raises PlanError when a stage cannot be measured."""
        self._tell("starting the stages")
        with Benches(self._requests) as benches:
            self._benches = benches
            self._began = time.monotonic()
            self._ready = grid.built((bench.request, bench.ready) for bench in benches.all)
            self._look(self._corners(), LEAST, "first look", self._share(FIRST_SHARE))
            self._companies(self._share(FIRST_SHARE + COMPANY_SHARE))
            self._rounds()
            self._look(self._all(), LEAST, "the rest", self._share(1.0))
            worths = self._rounds()
            return self._measured(worths, max(b.ready.weights_bytes for b in benches.all))

    # -- looks -------------------------------------------------------------------------------------

    def _rounds(self) -> dict[Place, float]:
        """Successive halving over what the planner still depends on."""
        slices, end = LEAST // 2, self._share(1.0)
        while True:
            known = self._known()
            worths = self._judge.worths(self._all(), known)
            if not (vague := self._vague(worths, known)) or time.monotonic() >= end:
                return worths
            slices *= 2
            half = vague[: -(-len(vague) // 2)]
            widest = max((known[p].width for p in half if p in known), default=1.0)
            before = sum(tally.slices for tally in self._kept().values())
            self._look(half, slices, f"{len(vague)} places open, ±{widest:.1%}", end, more=True)
            if sum(tally.slices for tally in self._kept().values()) == before:
                return worths

    def _vague(self, worths: Mapping[Place, float], known: Mapping[Place, Interval]) -> list[Place]:
        """Places that matter and are not known well enough, by falling worth."""
        found = [
            place
            for place, worth in worths.items()
            if worth > MATTERS and (place not in known or known[place].width > self._precision)
        ]
        return sorted(found, key=lambda place: (-worths[place], place))

    def _look(
        self, places: Iterable[Place], slices: int, what: str, end: float, *, more: bool = False
    ) -> None:
        """These places, in the company that a plan has them in. `more`: beside what is there."""
        wanted = list(places)
        shared = [place for place in wanted if self._company(place) == self._everybody]
        self._measure(self._everybody, shared, slices, what, end, more=more)
        for place in wanted:
            if place not in shared:
                self._measure((place.stage,), [place], slices, what, end, more=more)

    def _companies(self, end: float) -> None:
        """One place of each stage: alone, in pairs, all together."""
        plan = self._judge.plan({p: i.middle for p, i in self._known().items()})
        typical = {stage: self._typical(stage, plan) for stage in self._stages}
        names = self._everybody
        pairs = {(a, b) for i, a in enumerate(names) for b in names[i + 1 :]}
        for company in [*((name,) for name in self._stages), *sorted(pairs), names]:
            what = " beside ".join(company)
            places = [typical[name] for name in dict.fromkeys(company)]
            self._measure(company, places, LEAST, what, end)

    def _typical(self, stage: str, plan: Plan | None) -> Place:
        """The place that the best plan uses so far, else the largest batch on one core."""
        mine = [place for place in self._places[stage] if place.cores == 1]
        if plan is not None:
            batch = plan.stage(stage).replicas[0].batch
            mine.sort(key=lambda place: (abs(place.batch - batch), place.cores))
            return mine[0]
        return max(mine, key=lambda place: place.batch)

    def _measure(
        self,
        company: Company,
        places: Sequence[Place],
        slices: int,
        what: str,
        end: float,
        *,
        more: bool = False,
    ) -> None:
        """At least `slices` of each place while the company is busy. The company's stages that
        have no place in here work as load, on what they were last asked for."""
        goal = {
            place: (self._tally(company, place).slices if more else 0) + slices for place in places
        }
        if all(self._tally(company, place).slices >= goal[place] for place in places):
            return
        turns: dict[Bench, int] = dict.fromkeys(self._benches.all, 0)
        by_stage = {
            stage: [p for p in places if p.stage == stage] or [self._load(stage)]
            for stage in company
        }
        seats: list[str] = list(company)
        members: set[Bench] = set()
        for bench in self._benches.all:
            if bench.request.stage in seats:
                seats.remove(bench.request.stage)
                members.add(bench)

        def question(bench: Bench) -> Ask | None:
            stage = bench.request.stage
            done = all(self._tally(company, place).slices >= goal[place] for place in places)
            if bench not in members or done or time.monotonic() >= end:
                return None
            mine = by_stage[stage]
            short = [p for p in mine if self._tally(company, p).slices < goal.get(p, 0)]
            mine = short or mine
            place = mine[turns[bench] % len(mine)]
            turns[bench] += 1
            self._tell(what)
            return Ask(batch=place.batch, threads=place.cores, sms=place.sms, seconds=SLICE_S)

        def heard(bench: Bench, ask: Ask, told: Slice) -> None:
            place = Place(bench.request.stage, ask.sms, ask.threads, ask.batch)
            self._tally(company, place).add(told.seconds, told.bytes, told.device_bytes)
            self._journal.add(
                Entry(
                    company=company,
                    stage=place.stage,
                    sms=place.sms,
                    cores=place.cores,
                    batch=place.batch,
                    seconds=told.seconds,
                    bytes=told.bytes,
                    device_bytes=told.device_bytes,
                )
            )

        self._benches.run(question, heard)

    # -- what is known -----------------------------------------------------------------------------

    def _company(self, place: Place) -> Company:
        """Whom a plan has this place beside: everybody on one core, else nobody."""
        return self._everybody if place.cores == 1 and not place.sms else (place.stage,)

    def _load(self, stage: str) -> Place:
        return max(p for p in self._places[stage] if p.cores == 1)

    def _corners(self) -> list[Place]:
        """Of each stage, the least and the most of quota and batch: bounds of all between."""
        found = []
        for places in self._places.values():
            quotas = [place[1:3] for place in places]
            sizes = [place.batch for place in places]
            found += [
                place
                for place in places
                if place[1:3] in (min(quotas), max(quotas))
                and place.batch in (min(sizes), max(sizes))
            ]
        return found

    def _all(self) -> list[Place]:
        return [place for places in self._places.values() for place in places]

    def _tally(self, company: Company, place: Place) -> Tally:
        return self._tallies.setdefault(company, {}).setdefault(place, Tally())

    def _kept(self) -> dict[Place, Tally]:
        """Of each place, the tally in the company that counts."""
        found = {place: self._tally(self._company(place), place) for place in self._all()}
        return {place: tally for place, tally in found.items() if tally.slices}

    def _known(self) -> dict[Place, Interval]:
        return {place: tally.interval() for place, tally in self._kept().items()}

    def _profile(self, times: Times) -> tuple[Point, ...]:
        """Points with these seconds."""
        kept = self._kept()
        tallies = {
            place: msgspec.structs.replace(
                kept.get(place, Tally()), medians=[seconds], tails=[seconds]
            )
            for place, seconds in times.items()
        }
        return grid.points(tallies, self._here, self._ready, origin=self._here.origin)

    def _share(self, part: float) -> float:
        return self._began + part * self._budget_s

    def _tell(self, what: str) -> None:
        self._say(what, min(1.0, (time.monotonic() - self._began) / self._budget_s))

    # -- the outcome -------------------------------------------------------------------------------

    def _measured(self, worths: Mapping[Place, float], weights_bytes: int) -> Measured:
        kept, known = self._kept(), self._known()
        alone = {
            place: tally.median_s
            for name in self._stages
            for place, tally in self._tallies.get((name,), {}).items()
            if tally.slices
        }
        copies = tuple(
            (company[0], len(company), tally.interval())
            for company, tallies in sorted(self._tallies.items())
            if len(set(company)) == 1
            for place, tally in tallies.items()
            if tally.slices and self._everybody.count(place.stage) > 1
        )
        notes = {
            place: f"95% of the median: {interval.low:.4g} to {interval.high:.4g} s"
            for place, interval in known.items()
        }
        rows = tuple(
            Row(
                place=place,
                interval=known[place],
                slices=tally.slices,
                bytes=tally.device_bytes if place.sms else tally.bytes,
                worth=worths.get(place, 0.0),
                alone_s=alone.get(place),
            )
            for place, tally in sorted(kept.items())
        )
        return Measured(
            points=grid.points(kept, self._here, self._ready, notes, origin=self._here.origin),
            together=self._slowdowns(alone),
            rows=rows,
            weights_bytes=weights_bytes,
            plan=self._judge.plan({place: interval.middle for place, interval in known.items()}),
            copies=copies,
            open=tuple(self._vague(worths, known)),
            resumed=self._resumed,
            spent_s=time.monotonic() - self._began,
        )

    def _slowdowns(self, alone: Mapping[Place, float]) -> tuple[Together, ...]:
        """Of every company of two or more: each stage's time in it over its time alone."""
        found = []
        for company, tallies in sorted(self._tallies.items()):
            factors = {
                place.stage: tally.median_s / alone[place]
                for place, tally in tallies.items()
                if place in alone and tally.slices
            }
            if len(company) > 1 and set(factors) == set(company):  # typical places
                on_device = any(self._stages[name].device != "cpu" for name in company)
                found.append(
                    Together(
                        stages=company,
                        device=self._here.device if on_device else CPU,
                        factors=factors,
                        origin=self._here.origin,
                    )
                )
        return tuple(found)
