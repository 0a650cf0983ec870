"""What was predicted for a stretch of a run, to be laid above what was measured."""

from __future__ import annotations

from ebrl.planner.foresight.conditions import Conditions
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.plan import Plan
from ebrl.trace import Trace, shifted

SAMPLE = 20_000  # decisions of environments that tell how much happens in a second
MOST_EVENTS = 200_000  # that are simulated: seconds of work, and as many to look at


def predicted(plan: Plan, begin_s: float, end_s: float, *, seed: int = 0) -> Trace:
    """The simulation's trace from `begin_s` to `end_s` after the first firing, or as far as that is
    not too much to look at.

    A stretch that does not begin with the run has a simulation as long before it, which is not
    shown: by then its queues are as full as they get. Raises PlanError where the plan cannot be
    simulated.
    """
    wanted_s = end_s - begin_s
    if wanted_s <= 0:
        return Trace()
    before_s = min(begin_s, wanted_s)
    seconds = min(before_s + wanted_s, _affordable_s(plan, before_s + wanted_s, seed))
    before_s = min(before_s, seconds / 2)
    trace = _simulated(plan, seconds, seed)
    shown = Trace(event for event in trace.events if event[4] + event[5] >= before_s)
    return shifted(shown, begin_s - before_s)


def _affordable_s(plan: Plan, seconds: float, seed: int) -> float:
    """How long may be simulated, by what happens in a short time."""
    environment, rate = plan.program.environment, plan.prediction.throughput_env_steps_per_s
    chunk = environment.action.chunk if environment is not None else 1
    short_s = min(seconds, SAMPLE * chunk / max(rate, 1e-9))
    events = len(_simulated(plan, short_s, seed).events)
    return short_s * MOST_EVENTS / max(events, 1)


def _simulated(plan: Plan, seconds: float, seed: int) -> Trace:
    _, trace = simulate(plan, Conditions(seconds=seconds, seed=seed), trace=True)
    assert trace is not None
    return trace
