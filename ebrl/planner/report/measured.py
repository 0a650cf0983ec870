"""The run's half of the report: the verdict, predicted beside measured, where the time went.

Invariant: a stage's prediction and its measurement are of the same thing, the time of one replica
for one item, so that a batch that came out smaller than planned is not taken for a slower stage.
"""

from __future__ import annotations

import math

import msgspec

from ebrl.planner.plan import Plan, StagePlan
from ebrl.planner.report.bars import Bar, Part, bar, colours
from ebrl.planner.report.planned import Fact, memory_bytes
from ebrl.planner.report.rundir import Clock, RunRecord, Summary
from ebrl.planner.report.words import (
    CLOSE,
    Error,
    count,
    duration,
    error,
    number,
    percent,
    plural,
    size,
    time,
)

SAME = 0.005  # a success or a return that moved less than this share did not move


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One stage, predicted beside measured."""

    name: str
    colour: str
    workers: str
    firings: str
    batch: tuple[str, str]
    seconds: tuple[str, str]  # of one batch
    item: tuple[str, str]  # of one replica for one item
    error: Error | None  # of the item's time
    busy: tuple[str, str]
    busy_bar: Bar


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time went: stage time for one environment step, and what to make of it."""

    bars: tuple[Bar, ...]
    says: str


def verdict(plan: Plan, summary: Summary) -> str:
    """The run in one sentence."""
    parts = [_ended(summary)]
    gained = _gained("success_once", summary.first.success_once, summary.success_once)
    gained = gained or _gained("the mean return", summary.first.ep_rew_mean, summary.ep_rew_mean)
    parts += [gained] if gained else []
    predicted = plan.prediction.throughput_env_steps_per_s
    if (rate := summary.measured_env_steps_per_s) is not None:
        off = error(rate, predicted)
        beside = f"{number(rate)} steps/s measured against {number(predicted)} predicted"
        parts.append(beside + ("" if off is None else f" ({off.text})"))
    return "; ".join(parts) + "."


def _ended(summary: Summary) -> str:
    steps, took = plural(summary.env_steps, "environment step"), duration(summary.seconds)
    if not summary.updates:
        return f"Ended after {took}, before its first update"
    how = {"done": "Trained", "time limit": "Up to its time limit, trained"}
    start = how.get(summary.ended, f"Stopped by {summary.ended}, having trained")
    return f"{start} {steps} in {took}"


def _gained(name: str, before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return ""
    if abs(after - before) <= SAME * max(abs(before), abs(after)):
        return f"{name} stayed at {_score(after)}"
    return f"{name} {'rose' if after > before else 'fell'} from {_score(before)} to {_score(after)}"


def _score(value: float) -> str:
    return f"{value:.2f}".replace("-", "\u2212") if abs(value) < 10 else number(value)


def facts(plan: Plan, summary: Summary) -> tuple[Fact, ...]:
    """The figures of the run, beside what was predicted where something was."""
    predicted = plan.prediction.throughput_env_steps_per_s
    found = []
    if (rate := summary.measured_env_steps_per_s) is not None:
        off = error(rate, predicted)
        found.append(
            Fact(
                name="Throughput",
                value=number(rate),
                unit="steps/s",
                note=f"{number(predicted)} predicted" + (f", {off.text}" if off else ""),
                tone=off.tone if off else "",
            )
        )
    first = summary.first
    for name, before, after in (
        ("success_once", first.success_once, summary.success_once),
        ("Return", first.ep_rew_mean, summary.ep_rew_mean),
    ):
        if after is not None and before is not None:
            recent = min(100, summary.episodes)
            found.append(
                Fact(
                    name=name,
                    value=_score(after),
                    note=f"over the last {recent} episodes; {_score(before)} over the first "
                    f"{first.episodes}",
                )
            )
    found.append(
        Fact(
            name="Trained",
            value=count(summary.env_steps),
            unit="steps",
            note=f"{plural(summary.updates, 'update')}, {plural(summary.episodes, 'episode')}",
        )
    )
    found.append(
        Fact(
            name="Staleness",
            value=f"{summary.staleness.mean:.2f}",
            unit="versions",
            note=f"mean; {number(summary.staleness.max)} at most, {plan.max_staleness} allowed",
            tone="poor" if summary.staleness.max > plan.max_staleness else "",
        )
    )
    return tuple(found + _costs(plan, summary))


def _costs(plan: Plan, summary: Summary) -> list[Fact]:
    """Memory, start-up, and what went wrong on the way."""
    planned = memory_bytes(plan)
    off = error(summary.memory_bytes, planned) if planned else None
    found = [
        Fact(
            name="Memory",
            value=size(summary.memory_bytes) if summary.memory_bytes else "not sampled",
            note=f"{size(planned)} accounted for, {off.text}"
            if off and planned and summary.memory_bytes
            else "of all processes together, shared pages counted once",
        )
    ]
    if summary.start_to_first_step_s is not None:
        update = summary.start_to_first_update_s
        found.append(
            Fact(
                name="Start-up",
                value=duration(summary.start_to_first_step_s),
                note="to the first step"
                + ("" if update is None else f"; {duration(update)} to the first update"),
            )
        )
    if summary.restarts or summary.replans or summary.skipped_updates:
        found.append(
            Fact(
                name="Interventions",
                value=plural(summary.restarts, "restart"),
                note=plural(summary.replans, "replan")
                + f"; {plural(summary.skipped_updates, 'update')} left out"
                * bool(summary.skipped_updates),
            )
        )
    return found


def compared(plan: Plan, summary: Summary) -> tuple[Compared, ...]:
    """Every stage of the plan that ran, in the order of the graph."""
    palette = colours(plan)
    return tuple(
        _compare(stage, summary.stages[stage.name], palette[stage.name])
        for stage in plan.stages
        if stage.name in summary.stages
    )


def _compare(stage: StagePlan, clock: Clock, colour: str) -> Compared:
    planned, measured = item_seconds(stage), clock.busy_s / max(clock.items, 1.0)
    return Compared(
        name=stage.name,
        colour=colour,
        workers=count(clock.workers),
        firings=count(clock.firings),
        batch=(count(stage.batch), number(clock.batch)),
        seconds=(time(stage.seconds), time(clock.seconds) if clock.firings else "–"),
        item=(time(planned), time(measured) if clock.items else "–"),
        error=error(measured, planned) if clock.items else None,
        busy=(percent(stage.utilisation), percent(clock.busy)),
        busy_bar=bar(
            f"{stage.name}: busy",
            [
                Part(
                    name="busy",
                    amount=min(clock.busy, 1.0),
                    value=f"{percent(clock.busy)} of the time",
                    colour=colour,
                )
            ],
            1.0,
            mark=min(stage.utilisation, 1.0),
            mark_says=f"{percent(stage.utilisation)} predicted",
        ),
    )


def item_seconds(stage: StagePlan) -> float:
    """Predicted time of one replica for one item."""
    return len(stage.replicas) / max(stage.items_per_s, 1e-300)


def spent(plan: Plan, summary: Summary) -> Spent | None:
    """Stage time that one trained environment step took, beside what it was predicted to take."""
    clocks = [
        (each, summary.stages[each.name]) for each in plan.stages if each.name in summary.stages
    ]
    rate = summary.measured_env_steps_per_s
    if not clocks or not summary.env_steps or rate is None:
        return None
    palette = colours(plan)
    planned = {
        stage.name: stage.utilisation
        * len(stage.replicas)
        / max(plan.prediction.throughput_env_steps_per_s, 1e-300)
        for stage, _ in clocks
    }
    took = {stage.name: clock.busy_s / summary.env_steps for stage, clock in clocks}
    scale = max(math.fsum(planned.values()), math.fsum(took.values()))
    bars = tuple(
        bar(
            name,
            [
                Part(name=stage, amount=each, value=time(each), colour=palette[stage])
                for stage, each in parts.items()
            ],
            scale,
            note=time(math.fsum(parts.values())),
        )
        for name, parts in (("predicted", planned), ("measured", took))
    )
    return Spent(bars=bars, says=_explained(planned, took, clocks))


def _explained(
    planned: dict[str, float], took: dict[str, float], clocks: list[tuple[StagePlan, Clock]]
) -> str:
    before, after = math.fsum(planned.values()), math.fsum(took.values())
    off = error(after, before)
    text = (
        f"One trained environment step took {time(after)} of stage time, where {time(before)} "
        f"were predicted{f' ({off.text})' if off else ''}."
    )
    if before > 0 and abs(after / before - 1) > CLOSE:
        most = max(took, key=lambda name: abs(took[name] - planned[name]))
        gone = took[most] - planned[most]
        text += (
            f" Most of the difference is in {most}: {time(abs(gone))} "
            f"{'more' if gone > 0 else 'less'} a step."
        )
    workers = sum(clock.workers for _, clock in clocks)
    busy = sum(clock.busy * clock.workers for _, clock in clocks) / max(workers, 1)
    replicas = sum(len(stage.replicas) for stage, _ in clocks)
    meant = sum(stage.utilisation * len(stage.replicas) for stage, _ in clocks) / max(replicas, 1)
    return (
        f"{text} The workers were busy {percent(busy)} of the time on average, {percent(meant)} "
        "predicted; the rest they waited for one another, or for a core that others used."
    )


def ledger(summary: Summary) -> tuple[str, Bar, bool]:
    """The ledger as a sentence and as a bar, and whether it balances."""
    book = summary.ledger
    discarded = {reason: steps for reason, steps in book.discarded.items() if steps}
    reasons = ", ".join(f"{count(steps)} {reason}" for reason, steps in discarded.items())
    text = (
        f"{count(book.produced)} environment steps produced = {count(book.trained)} trained + "
        f"{count(sum(discarded.values()))} discarded{f' ({reasons})' if reasons else ''} + "
        f"{count(book.in_flight)} in flight at the end"
    )
    if book.balance:
        text += f": {count(abs(book.balance))} {'missing' if book.balance > 0 else 'too many'}."
    else:
        text += ": it balances, so nothing was lost or used twice."
    amounts = [("trained", book.trained, "train")]
    amounts += [(f"discarded, {reason}", steps, "poor") for reason, steps in discarded.items()]
    amounts += [("in flight", book.in_flight, "soft")]
    parts = [
        Part(
            name=name,
            amount=float(steps),
            value=f"{count(steps)} ({percent(steps / max(book.produced, 1), 1)})",
            colour=colour,
        )
        for name, steps, colour in amounts
    ]
    return text, bar("ledger", parts, float(book.produced)), not book.balance


def remarks(run: RunRecord) -> tuple[str, ...]:
    """What a reader has to know about the run's files, and how it ended."""
    found = list(run.remarks)
    if run.summary is not None and run.summary.ended not in ("done", "time limit"):
        found.append(f"The run was stopped by {run.summary.ended} before its work was done.")
    return tuple(found)
