"""A simulation in words and rows, for the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ebrl.planner.foresight.outcome import Outcome
from ebrl.planner.plan import Plan

HEADINGS = ("stage", "replicas", "busy", "planned", "batch", "queue", "calls")


def body(plan: Plan, outcome: Outcome, trace: str | None) -> dict[str, Any]:
    """The object of `--json`."""
    found: dict[str, Any] = msgspec.to_builtins(outcome)
    found["events_per_s"] = outcome.events_per_s
    found["plan_sha256"] = plan.digest()
    found["trace"] = trace
    return found


def rows(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    """A row a stage."""
    for each in outcome.stages:
        yield (
            each.name,
            str(each.replicas),
            f"{each.busy:.0%}",
            f"{each.planned_busy:.0%}",
            f"{each.batch:,.1f}",
            f"{each.queue:,.1f}",
            f"{each.calls:,}",
        )


def told(outcome: Outcome) -> Iterator[str]:
    """Everything beside the table."""
    if outcome.throughput_env_steps_per_s <= 0:
        yield (
            f"simulated   {outcome.updates} updates ended in {outcome.seconds:,.1f} s: too few for "
            "a throughput; simulate longer with --seconds"
        )
        yield f"rollout     {outcome.rollout_env_steps_per_s:,.1f} environment steps/s produced"
        return
    line = f"simulated   {outcome.throughput_env_steps_per_s:,.1f} environment steps/s"
    if outcome.confidence_env_steps_per_s is not None:
        low, high = outcome.confidence_env_steps_per_s
        line += f" (95%: {low:,.1f} to {high:,.1f})"
    yield f"{line}, {outcome.updates} updates in {outcome.seconds:,.0f} s"
    yield (
        f"predicted   {outcome.predicted_env_steps_per_s:,.1f} by the plan's closed form "
        f"({outcome.error_vs_plan:+.1%})"
    )
    for term in outcome.why:
        if term.cause == "start-up":
            continue
        yield f"  {-term.share:+7.1%}   {term.cause}: {term.what}"
    if outcome.first_update_s is not None:
        first = f"the first update ended after {outcome.first_update_s:,.1f} s"
        yield f"start       {first}; the first {outcome.warm_up_s:,.1f} s are not counted"
    spread = ", ".join(f"{behind}: {share:.0%}" for behind, share in outcome.staleness.items())
    yield (
        f"staleness   {outcome.staleness_mean:.2f} versions on average, {outcome.staleness_max} at "
        f"most ({spread}); {outcome.parked:,.1f} environments parked, "
        f"{outcome.ready:,.1f} full segments waiting"
    )
    parts = outcome.learner
    yield (
        f"learner     computes {parts['computing']:.0%} of the time, reduces and publishes "
        f"{parts['reduce_publish']:.0%}, waits for a batch {parts['waiting']:.0%}"
    )
    discarded = f", {outcome.discarded:,} thrown away as stale" if outcome.discarded else ""
    yield (
        f"ledger      {outcome.produced:,} steps produced = {outcome.trained:,} trained"
        f"{discarded} + {outcome.in_flight:,} in flight"
    )
