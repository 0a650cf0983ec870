"""What the plan will do, by its simulation: a timeline of two updates, figures, and why they differ
from the closed form; and other systems' schedules, where a comparison was made.

Invariant: a plan that cannot be simulated still has its page, which says why there is no timeline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ebrl.errors import EbrlError, PlanError
from ebrl.planner.foresight.compare import Row
from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.outcome import Outcome
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.foresight.why import explain
from ebrl.planner.plan import Plan
from ebrl.planner.report.bars import Bar, Part, Segment, bar, colours
from ebrl.planner.report.planned import Fact
from ebrl.planner.report.words import count, duration, error, number, percent
from ebrl.trace import SPAN, Event, Trace

UPDATES, SHOWN = 12, 2  # simulated, and in the timeline
MOST_STEPS = 1_500_000  # environment steps that a page is worth simulating
LANES = 4  # of a stage
COLUMNS = 240  # of the timeline


class Lane(Bar, frozen=True, kw_only=True):
    """A replica's row in the timeline; in words, how busy it is there."""

    busy: str = ""

    @property
    def says(self) -> str:
        return f"{self.name}: at work {self.busy} of the time"


class Ahead(msgspec.Struct, frozen=True, kw_only=True):
    """The section."""

    facts: tuple[Fact, ...] = ()
    terms: tuple[tuple[str, str, str], ...] = ()  # share, cause, what
    lanes: tuple[Lane, ...] = ()
    shown: str = ""
    remark: str = ""


def ahead(plan: Plan) -> Ahead:
    """Simulate for some updates. An error of the plan becomes a remark."""
    training, pace = plan.program.training, plan.prediction.throughput_env_steps_per_s
    if training is None or not pace > 0:
        return Ahead(remark="A plan without a learner has no timeline.")
    updates = max(4, min(UPDATES, MOST_STEPS // training.batch))
    conditions = Conditions(seconds=updates * training.batch / pace)
    try:
        outcome, trace = simulate(plan, conditions, trace=True)
        terms = explain(plan, outcome, conditions)
    except EbrlError as fault:
        return Ahead(remark=f"The plan could not be simulated: {fault.diagnostics[0].message}.")
    assert trace is not None
    begin, end = _window(trace, outcome.seconds)
    return Ahead(
        facts=_facts(outcome),
        terms=tuple(
            (_signed(-term.share), term.cause, term.what)
            for term in terms
            if term.cause != "start-up"
        ),
        lanes=_lanes(plan, trace, begin, end),
        shown=f"{duration(end - begin)} from {duration(begin)} on, up to {LANES} replicas a stage "
        "of the first node",
    )


def _facts(outcome: Outcome) -> tuple[Fact, ...]:
    rate, predicted = outcome.throughput_env_steps_per_s, outcome.predicted_env_steps_per_s
    if rate <= 0:
        return (Fact(name="Simulated", value="–", note="too few updates for a throughput"),)
    off = error(rate, predicted)
    first = outcome.first_update_s
    return (
        Fact(
            name="Simulated", value=number(rate), unit="steps/s",
            note=f"{off.text} against the prediction" if off else "", tone=off.tone if off else "",
        ),
        Fact(
            name="Staleness", value=number(outcome.staleness_mean), unit="versions",
            note=f"{count(outcome.staleness_max)} at most",
        ),
        Fact(
            name="Learner waits", value=percent(outcome.learner["waiting"]),
            note="of the time, for a batch",
        ),
        Fact(
            name="First update", value="–" if first is None else duration(first),
            note="after the first step",
        ),
    )  # fmt: skip


def _signed(share: float) -> str:
    found = error(1 + share, 1.0)
    return found.text if found is not None else ""


def _window(trace: Trace, seconds: float) -> tuple[float, float]:
    """From one update's publication to that of the second one after it, past the warm-up."""
    marks = [event[4] for event in trace.events if event[3] == "version"]
    if len(marks) > SHOWN:
        first = min(3, len(marks) - 1 - SHOWN)
        return marks[first], marks[first + SHOWN]
    return 0.0, seconds


def _lanes(plan: Plan, trace: Trace, begin: float, end: float) -> tuple[Lane, ...]:
    """Rows by stage, in the order of the plan."""
    palette = colours(plan)
    spans: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in trace.events:
        if event[0] == SPAN and event[4] < end and event[4] + event[5] > begin:
            spans[event[1], event[2]].append(event)
    found = []
    for stage in plan.stages:
        node = min((replica.node for replica in stage.replicas), default="")
        mine = [replica for replica in stage.replicas if replica.node == node][:LANES]
        for replica in mine:
            name = f"{stage.name} {replica.index}"
            busy = _columns(spans[node, name], begin, end)
            where = "cores" if replica.device is None else f"GPU {replica.device}"
            found.append(
                Lane(
                    name=name,
                    segments=_runs(busy, stage.name, palette[stage.name]),
                    note=where,
                    busy=percent(sum(busy) / COLUMNS),
                )
            )
    return tuple(found)


def _columns(spans: Sequence[Event], begin: float, end: float) -> list[float]:
    """Part of each column that is covered."""
    width = (end - begin) / COLUMNS
    covered = [0.0] * COLUMNS
    for span in spans:
        start, stop = max(span[4], begin), min(span[4] + span[5], end)
        first, last = int((start - begin) / width), int((stop - begin) / width)
        for column in range(first, min(last, COLUMNS - 1) + 1):
            left = begin + column * width
            covered[column] += max(0.0, min(stop, left + width) - max(start, left)) / width
    return [min(1.0, part) for part in covered]


def _runs(busy: Sequence[float], name: str, colour: str) -> tuple[Segment, ...]:
    """Columns that are mostly covered, joined."""
    found = []
    start: int | None = None
    for column, part in enumerate([*busy, 0.0]):
        if part >= 0.5 and start is None:
            start = column
        elif part < 0.5 and start is not None:
            found.append(
                Segment(
                    name=name, value="at work", colour=colour, short="", label="", tight=False,
                    start=round(100 * start / COLUMNS, 3),
                    width=round(100 * (column - start) / COLUMNS, 3),
                )
            )  # fmt: skip
            start = None
    return tuple(found)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What `ebrl compare --json` printed, as far as it is shown."""

    rows: tuple[Row, ...]
    best_other: str | None = None


def read_comparison(path: Path) -> Compared:
    """Raises PlanError where the file is no such thing."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Compared)
    except OSError as fault:
        why = fault.strerror or "it cannot be read"
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        why = str(fault)
    raise PlanError(
        "comparison-malformed",
        f"this is no comparison: {why}",
        where=str(path),
        hint="make one with: ebrl compare GRAPH --cluster SPEC --json > compare.json",
    )


def comparison(given: Compared) -> tuple[Bar, ...]:
    """A bar a strategy, against the fastest; the tick is the bound."""
    rates = {row.strategy: row.throughput_env_steps_per_s or 0.0 for row in given.rows}
    bound = rates.pop("bound", 0.0)
    scale = 1.02 * max([bound, *rates.values(), 1e-9])
    found = []
    for row in given.rows:
        if row.strategy == "bound":
            continue
        rate = rates[row.strategy]
        text = "nothing fits" if not rate else f"{number(rate)} steps/s"
        colour = "generate" if row.strategy.startswith("ours") else "grey"
        note = "" if row.speedup is None else f"{row.speedup:.2f}×"
        found.append(
            bar(
                row.strategy,
                [Part(name="", amount=rate, value=text, colour=colour)],
                scale,
                note=note or text,
                mark=bound or None,
                mark_says=f"bound {number(bound)} steps/s" if bound else "",
            )
        )
    return tuple(found)
