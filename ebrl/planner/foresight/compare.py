"""Schedules side by side: each strategy's plans simulated, the best one kept.

Every candidate is simulated for some updates, in falling order of its closed form and until no
further one promises more than the best has reached; the best three (and for ours, what the others
chose) are then simulated for longer, and the best of these is kept. So the throughputs are the
simulation's, under the strategy's own discipline; the closed form is beside them. Invariant: all
rows rest on the same points, and the same procedure chooses for all but ours, which adds to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from ebrl.errors import EbrlError, PlanError
from ebrl.frontend.program import Program
from ebrl.planner.compile import compile
from ebrl.planner.foresight.candidates import candidates
from ebrl.planner.foresight.conditions import Conditions, Discipline, of_schedule
from ebrl.planner.foresight.outcome import Outcome
from ebrl.planner.foresight.simulate import simulate
from ebrl.planner.foresight.strategies import OTHERS, Strategy, all_strategies
from ebrl.planner.hardware import Cluster
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.model.spaces import staleness
from ebrl.planner.plan import Plan
from ebrl.planner.portfolio import throughput_bound
from ebrl.planner.profile import Point

SCREENED, KEPT = 14, 40  # updates to simulate: to choose, and of what was chosen
OURS = "ours"
FINALISTS = 3  # simulated for longer: a short simulation may have been lucky
HOPELESS = 1.02  # a simulation may be so much above the closed form, by chance

Say = Callable[[str], None]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One strategy. `speedup`: over the best of the other systems' schedules. `staleness`: mean,
    in versions. None where nothing fits, or the schedule is not allowed."""

    strategy: str
    throughput_env_steps_per_s: float | None
    speedup: float | None = None
    gpu_busy: float | None = None
    core_busy: float | None = None
    staleness: float | None = None
    confidence_env_steps_per_s: tuple[float, float] | None = None
    closed_form_env_steps_per_s: float | None = None
    simulated: bool = True
    environments: int | None = None
    placement: str = ""
    what: str = ""
    source: str = ""
    candidates: int = 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """`planned`: what the plan that `ebrl plan` writes comes to when it is simulated."""

    rows: tuple[Row, ...]
    best_other: str | None
    planned_env_steps_per_s: float | None
    plans: dict[str, Plan] = {}


def compare(
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    *,
    options: CompileOptions | None = None,
    conditions: Conditions | None = None,
    only: Iterable[str] = (),
    say: Say = lambda _: None,
) -> Comparison:
    """A row a strategy, then the bound."""
    options, conditions = options or CompileOptions(), conditions or Conditions()
    wanted = [s for s in all_strategies() if not only or s.name in set(only)]
    eta = staleness(program, options)
    rows: list[Row] = []
    plans: dict[str, Plan] = {}
    for strategy in wanted:
        say(strategy.name)
        if eta == 0 and not strategy.synchronous and strategy.restriction is not None:
            rows.append(_none(strategy, "the graph allows no staleness"))
            continue
        known = list(plans.values()) if strategy.name == OURS else []
        row, plan = _row(strategy, program, cluster, points, options, conditions, known)
        rows.append(row)
        if plan is not None:
            plans[strategy.name] = plan
    planned = _planned(program, cluster, points, options, conditions)
    bound = throughput_bound(program, cluster, points, options)
    rows.append(
        Row(
            strategy="bound",
            throughput_env_steps_per_s=bound,
            closed_form_env_steps_per_s=bound,
            simulated=False,
            what="no plan on this hardware and profile exceeds it",
            source="weak duality",
        )
    )
    rows, best = _speedups(rows)
    return Comparison(
        rows=tuple(rows), best_other=best, planned_env_steps_per_s=planned, plans=plans
    )


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """Raises PlanError where one is no strategy's."""
    known = [strategy.name for strategy in all_strategies()]
    for name in names:
        if name not in known:
            raise PlanError(
                "strategy-unknown",
                f"{name!r} is no strategy",
                where="--only",
                hint=f"they are {', '.join(known)}",
            )
    return tuple(names)


def _row(
    strategy: Strategy,
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
    conditions: Conditions,
    known: list[Plan],
) -> tuple[Row, Plan | None]:
    """`known`: plans that others chose, which are to be among the last."""
    found = list(candidates(strategy, program, cluster, points, options))
    found.sort(key=lambda plan: -plan.prediction.throughput_env_steps_per_s)
    screened: list[tuple[float, Plan]] = []
    seen: set[str] = set()
    for plan in found:
        closed = plan.prediction.throughput_env_steps_per_s
        if screened and closed * HOPELESS < max(rate for rate, _ in screened):
            break
        if (digest := plan.digest()) in seen:
            continue
        seen.add(digest)
        rate = run(plan, strategy, conditions, SCREENED).throughput_env_steps_per_s
        screened.append((rate, plan))
    if not screened:
        return _none(strategy, "nothing fits"), None
    screened.sort(key=lambda pair: -pair[0])
    last = [plan for _, plan in screened[:FINALISTS]] + known
    finals = [(run(plan, strategy, conditions, KEPT), plan) for plan in last]
    outcome, plan = max(finals, key=lambda pair: pair[0].throughput_env_steps_per_s)
    return (
        Row(
            strategy=strategy.name,
            throughput_env_steps_per_s=outcome.throughput_env_steps_per_s,
            gpu_busy=_gpu_busy(plan, outcome),
            core_busy=_core_busy(plan, outcome),
            staleness=outcome.staleness_mean,
            confidence_env_steps_per_s=outcome.confidence_env_steps_per_s,
            closed_form_env_steps_per_s=plan.prediction.throughput_env_steps_per_s,
            environments=plan.environments.count,
            placement=placement(plan),
            what=strategy.what,
            source=strategy.source,
            candidates=len(seen),
        ),
        plan,
    )


def run(plan: Plan, strategy: Strategy, conditions: Conditions, updates: int) -> Outcome:
    """So many updates, by the closed form's pace, under the strategy's discipline."""
    training = plan.program.training
    assert training is not None
    pace = max(plan.prediction.throughput_env_steps_per_s, 1e-9)
    seconds = conditions.seconds or updates * training.batch / pace
    given = msgspec.structs.replace(conditions, seconds=seconds)
    return simulate(plan, given, discipline=discipline(strategy, plan))[0]


def discipline(strategy: Strategy, plan: Plan) -> Discipline:
    """The strategy's own; a synchronous plan of ours goes as our runtime does."""
    if plan.schedule == "synchronous" and not strategy.synchronous:
        return of_schedule(plan.schedule)
    return strategy.discipline


def _planned(
    program: Program,
    cluster: Cluster,
    points: tuple[Point, ...],
    options: CompileOptions,
    conditions: Conditions,
) -> float | None:
    wanted = msgspec.structs.replace(options, alternatives=False)
    try:
        plan = compile(program, cluster, points, options=wanted)
    except EbrlError:
        return None
    return run(plan, all_strategies()[-1], conditions, KEPT).throughput_env_steps_per_s


def _none(strategy: Strategy, why: str) -> Row:
    return Row(
        strategy=strategy.name,
        throughput_env_steps_per_s=None,
        placement=why,
        what=strategy.what,
        source=strategy.source,
    )


def _speedups(rows: list[Row]) -> tuple[list[Row], str | None]:
    names = {make.__name__.replace("_", "-") for make in OTHERS}
    others = {
        row.strategy: row.throughput_env_steps_per_s
        for row in rows
        if row.strategy in names and row.throughput_env_steps_per_s
    }
    if not others:
        return rows, None
    best = max(others, key=lambda name: others[name])
    return [
        msgspec.structs.replace(row, speedup=row.throughput_env_steps_per_s / others[best])
        if row.throughput_env_steps_per_s is not None
        else row
        for row in rows
    ], best


def _gpu_busy(plan: Plan, outcome: Outcome) -> float | None:
    """Part of all SMs of the cluster that is at work, on average."""
    sms = sum(n.count * n.devices * n.device.sms for n in plan.cluster.nodes if n.device)
    return sum(each.sms_busy for each in outcome.stages) / sms if sms else None


def _core_busy(plan: Plan, outcome: Outcome) -> float:
    cores = sum(n.count * n.cores for n in plan.cluster.nodes)
    return sum(each.cores_busy for each in outcome.stages) / cores


def placement(plan: Plan) -> str:
    """ "simulate 9 on cores | generate 3 | train 6", GPUs where there are any."""
    parts = []
    for stage in plan.stages:
        gpus = {(r.node, r.device) for r in stage.replicas if r.device is not None}
        where = f"{len(gpus)} GPUs" if gpus else f"{len(stage.replicas)} on cores"
        batch = max(replica.batch for replica in stage.replicas)
        parts.append(f"{stage.name} {where}, batch {batch}")
    return " | ".join(parts)


# -- in words ------------------------------------------------------------------------------------

HEADINGS = ("strategy", "steps/s", "speedup", "closed form", "GPUs", "cores", "staleness", "envs")


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table."""

    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return (
        row.strategy,
        number(row.throughput_env_steps_per_s, ",.1f"),
        "-" if row.speedup is None else f"{row.speedup:.2f}×",
        number(row.closed_form_env_steps_per_s, ",.1f"),
        number(row.gpu_busy, ".0%"),
        number(row.core_busy, ".0%"),
        number(row.staleness, ".2f"),
        number(row.environments, ",d"),
    )


def told(comparison: Comparison) -> Iterator[str]:
    """Who was placed how, what the figures are, and how ours stands."""
    for row in comparison.rows:
        if row.placement:
            yield f"{row.strategy:18} {row.placement}"
    yield ""
    yield (
        "steps/s are simulated, each under its strategy's own rules; GPUs and cores: the part at "
        "work; speedup: over the best of the other systems' schedules"
    )
    ours = next((row for row in comparison.rows if row.strategy == "ours"), None)
    if ours is None or ours.speedup is None:
        return
    verdict = "faster than" if ours.speedup > 1.005 else "no faster than"
    yield f"ours is {verdict} the best of them, {comparison.best_other} ({ours.speedup:.2f}×)"
    planned = comparison.planned_env_steps_per_s
    if planned is not None and ours.throughput_env_steps_per_s:
        yield (
            f"the plan that `ebrl plan` writes simulates at {planned:,.1f} steps/s; ours above is "
            "the best of the planner's plans for several numbers of environments and processes"
        )
