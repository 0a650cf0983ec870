"""Why a simulation differs from the closed form: it is run again with one cause after another
taken away, and each is charged with what its absence brings.

The order is fixed: what varies, ends of episodes, transport and weights, admission; what then
remains is the loop itself. Invariant: the terms add up to the difference, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from ebrl.planner.foresight.conditions import Conditions, Discipline
from ebrl.planner.foresight.outcome import Outcome, Term
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.plan import Plan

NOTHING = 1e-4  # of the closed form: not worth a line


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause, and the conditions without it."""

    name: str
    what: str
    without: Callable[[Conditions], Conditions]


CAUSES = (
    Cause(
        name="variance",
        what="ranks, and sets that wait for each other, wait for the slowest; a mean time is above "
        "its median",
        without=lambda given: replace(given, vary=False),
    ),
    Cause(
        name="ends of episodes",
        what="an episode's last observation takes a row of its segment, so an update has fewer "
        "steps than its batch",
        without=lambda given: replace(given, episodes=False),
    ),
    Cause(
        name="transport",
        what="segments cross the network, policies read new weights, all-reduces and publications "
        "take their time",
        without=lambda given: replace(given, transport=False),
    ),
    Cause(
        name="staleness admission",
        what="segments are admitted a batch at a time, so a batch's last segments hold up the next "
        "update while other replicas have nothing left to do",
        without=lambda given: replace(given, admission=False),
    ),
)
LOOP = (
    "waiting for the batch",
    "environments belong to their replicas, so one may idle while another has a queue, and calls "
    "are made with what is there; the closed form assumes full batches and no queues",
)
PHASES = (
    "fill and drain",
    "with rollout and training in turns, each rollout begins with empty queues and ends with the "
    "slowest replica's last segment",
)


def explain(
    plan: Plan, outcome: Outcome, conditions: Conditions, discipline: Discipline | None = None
) -> tuple[Term, ...]:
    """The terms, largest first; start-up last, which is not part of the difference."""
    predicted = outcome.predicted_env_steps_per_s
    if predicted <= 0 or outcome.throughput_env_steps_per_s <= 0:
        return ()
    given = replace(conditions, seconds=outcome.seconds)
    rate, terms = outcome.throughput_env_steps_per_s, []
    synchronous = plan.schedule == "synchronous"
    for cause in CAUSES:
        if synchronous and cause.name == "staleness admission":
            continue  # the alternation is the schedule itself
        given = cause.without(given)
        again = simulate(plan, given, discipline=discipline)[0].throughput_env_steps_per_s
        terms.append(_term(cause.name, cause.what, again - rate, predicted))
        rate = again
    terms.append(_term(*(PHASES if synchronous else LOOP), predicted - rate, predicted))
    terms = [term for term in terms if abs(term.share) > NOTHING]
    terms.sort(key=lambda term: -abs(term.share))
    return (*terms, start_up(outcome))


def _term(name: str, what: str, lost: float, predicted: float) -> Term:
    return Term(cause=name, what=what, env_steps_per_s=lost, share=lost / predicted)


def start_up(outcome: Outcome) -> Term:
    """What the first moments take of the mean from the first step on."""
    overall = outcome.trained / outcome.seconds if outcome.seconds > 0 else 0.0
    lost = max(0.0, outcome.throughput_env_steps_per_s - overall)
    return _term(
        "start-up",
        f"of the mean over all {outcome.seconds:,.0f} s; not part of the difference above",
        lost,
        outcome.predicted_env_steps_per_s,
    )
