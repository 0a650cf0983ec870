"""The one place that speaks to PuLP: a linear program in, an outcome that says what it is out.

Invariants: every solve of a process uses one thread (HiGHS refuses a second thread count), so
equal inputs give equal outcomes; effort is limited by nodes of the search tree, not by time, so
the load of the machine does not show; a run that met a limit is never called optimal, and carries
its incumbent and its bound. Nothing here is taken for proof: `verify` checks the plan again.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from ebrl.errors import PlanError

Status = Literal["optimal", "time limit", "effort limit", "infeasible"]
INFINITY = math.inf


class Model(msgspec.Struct):
    """max Σ objective·x, low ≤ row·x ≤ high, x within bounds, some x integer; numbered."""

    names: list[str] = msgspec.field(default_factory=list)
    objective: list[float] = msgspec.field(default_factory=list)
    low: list[float] = msgspec.field(default_factory=list)
    high: list[float] = msgspec.field(default_factory=list)
    integer: list[bool] = msgspec.field(default_factory=list)
    rows: list[dict[int, float]] = msgspec.field(default_factory=list)
    row_names: list[str] = msgspec.field(default_factory=list)
    row_low: list[float] = msgspec.field(default_factory=list)
    row_high: list[float] = msgspec.field(default_factory=list)

    def column(
        self,
        name: str,
        *,
        objective: float = 0.0,
        low: float = 0.0,
        high: float = INFINITY,
        integer: bool = False,
    ) -> int:
        """Add a variable; returns its number."""
        self.names.append(name)
        self.objective.append(objective)
        self.low.append(low)
        self.high.append(high)
        self.integer.append(integer)
        return len(self.names) - 1

    def row(
        self,
        name: str,
        terms: dict[int, float],
        *,
        low: float = -INFINITY,
        high: float = INFINITY,
    ) -> int:
        """Add a constraint; returns its number."""
        self.rows.append(terms)
        self.row_names.append(name)
        self.row_low.append(low)
        self.row_high.append(high)
        return len(self.rows) - 1


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """`bound` holds for every solution; `values` is empty where there is none.

    `duals` (one a row, ≥ 0 where relaxing an upper limit raises the objective) are given for linear
    programs only.
    """

    status: Status
    objective: float
    bound: float
    values: tuple[float, ...]
    duals: tuple[float, ...]
    seconds: float
    solver: str

    @property
    def gap(self) -> float:
        if not self.values:
            return math.inf
        return max(0.0, self.bound - self.objective) / max(abs(self.bound), 1e-12)


def solve(
    model: Model,
    *,
    relaxed: bool = False,
    time_limit_s: float | None = None,
    relative_gap: float = 1e-5,
    node_limit: int | None = None,
    presolve: bool = True,
    solver: Literal["auto", "highs", "cbc"] = "auto",
) -> Outcome:
    """Maximise. `relaxed` drops integrality and returns duals.

    Without presolve, programs of many patterns take a third to a half less time, but their
    continuous part is less exact.
    """
    import pulp

    begun = time.perf_counter()
    problem = pulp.LpProblem("plan", pulp.LpMaximize)
    columns = _columns(pulp, problem, model, relaxed)
    problem.setObjective(
        pulp.LpAffineExpression([(columns[i], c) for i, c in enumerate(model.objective) if c])
    )
    rows = _rows(pulp, problem, model, columns)
    engine, name = _engine(pulp, solver, relaxed, time_limit_s, relative_gap, node_limit, presolve)
    try:
        with _silence():
            problem.solve(engine)
    except KeyError:
        # PuLP has no word for a node limit, after it has read the solution: `_verdict` has one.
        if name != "HiGHS" or node_limit is None:
            raise
    except pulp.PulpSolverError as error:
        raise PlanError(
            "solver-failed",
            f"{name} stopped without an answer: {error}",
            hint="install the other solver (pip install highspy) and plan again",
        ) from error
    status, bound = _verdict(pulp, problem, name)
    seconds = time.perf_counter() - begun
    if status == "infeasible":
        return Outcome(
            status=status, objective=-INFINITY, bound=-INFINITY, values=(), duals=(),
            seconds=seconds, solver=name,
        )  # fmt: skip
    values = tuple(_value(column.varValue, model, i) for i, column in enumerate(columns))
    objective = math.fsum(c * x for c, x in zip(model.objective, values, strict=True) if c)
    if any(math.isnan(value) for value in values):
        values, objective = (), -INFINITY
    duals = tuple(-float(row.pi) for row in rows) if relaxed else ()
    return Outcome(
        status=status,
        objective=objective,
        bound=objective if bound is None else max(bound, objective),
        values=values,
        duals=duals,
        seconds=seconds,
        solver=name,
    )


def certificate(model: Model, duals: Sequence[float]) -> float:
    """An upper bound that any multipliers prove (weak duality), whatever a solver says of them.

    Multipliers of the wrong sign are dropped; what a column could still gain, it gains up to its
    upper limit. So the bound holds always, and is tight where the duals are right.
    """
    bound = 0.0
    reduced = list(model.objective)
    for i, terms in enumerate(model.rows):
        price, low, high = duals[i], model.row_low[i], model.row_high[i]
        if price > 0 and high < INFINITY:
            bound += price * high
        elif price < 0 and low > -INFINITY:
            bound += price * low
        else:
            continue
        for column, coefficient in terms.items():
            reduced[column] -= price * coefficient
    for gain, low, high in zip(reduced, model.low, model.high, strict=True):
        if gain > 0:
            bound += gain * high if high < INFINITY else (INFINITY if gain > 1e-9 else 0.0)
        elif gain < 0 and low:
            bound += gain * low
    return bound


def _columns(pulp: Any, problem: Any, model: Model, relaxed: bool) -> list[Any]:
    return [
        problem.add_variable(
            f"x{i:06d}",  # a user's names may hold characters that a solver's file does not
            None if model.low[i] == -INFINITY else model.low[i],
            None if model.high[i] == INFINITY else model.high[i],
            cat=pulp.LpInteger if model.integer[i] and not relaxed else pulp.LpContinuous,
        )
        for i in range(len(model.names))
    ]


def _rows(pulp: Any, problem: Any, model: Model, columns: list[Any]) -> list[Any]:
    made = []
    for i, terms in enumerate(model.rows):
        expression = pulp.LpAffineExpression([(columns[j], c) for j, c in terms.items() if c])
        low, high = model.row_low[i], model.row_high[i]
        assert low in (high, -INFINITY) or high == INFINITY, "one side a row"
        if low == high:
            sense, right = pulp.LpConstraintEQ, low
        elif high == INFINITY:
            sense, right = pulp.LpConstraintGE, low
        else:
            sense, right = pulp.LpConstraintLE, high
        constraint = pulp.LpConstraint(expression, sense, f"r{i:06d}", right)
        problem.addConstraint(constraint)
        made.append(constraint)
    return made


def _engine(
    pulp: Any,
    solver: str,
    relaxed: bool,
    time_limit_s: float | None,
    relative_gap: float,
    node_limit: int | None,
    presolve: bool,
) -> tuple[Any, str]:
    """HiGHS in this process where it is installed, else CBC as a program beside it."""
    highs = pulp.HiGHS(
        mip=not relaxed,
        msg=False,
        threads=1,
        gapRel=relative_gap,
        timeLimit=time_limit_s,
        presolve="choose" if presolve else "off",
        **({"mip_max_nodes": node_limit} if node_limit is not None else {}),
    )
    if solver != "cbc" and highs.available():
        return highs, "HiGHS"
    for kind in ("PULP_CBC_CMD", "COIN_CMD"):
        cbc = getattr(pulp, kind, None)
        if cbc is None:
            continue
        engine = cbc(
            mip=not relaxed,
            msg=False,
            threads=1,
            gapRel=relative_gap,
            timeLimit=time_limit_s,
            maxNodes=node_limit,
        )
        if engine.available():
            return engine, "CBC"
    raise PlanError(
        "no-solver",
        "no solver for integer programs is installed",
        hint="pip install highspy",
    )


def _verdict(pulp: Any, problem: Any, name: str) -> tuple[Status, float | None]:
    """What the run was, from the solver itself where PuLP's own status would hide a limit."""
    if name == "HiGHS":
        import highspy

        engine = problem.solverModel
        status = engine.getModelStatus()
        kinds = highspy.HighsModelStatus
        if status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible):
            return "infeasible", None
        bound = None
        if any(variable.cat == pulp.LpInteger for variable in problem.variables()):
            bound = -float(engine.getInfo().mip_dual_bound)
            bound = bound if math.isfinite(bound) else INFINITY
        if status == kinds.kOptimal:
            return "optimal", bound
        return ("time limit" if status == kinds.kTimeLimit else "effort limit"), bound
    if problem.status == pulp.LpStatusInfeasible:
        return "infeasible", None
    optimal = problem.sol_status == pulp.LpSolutionOptimal
    return ("optimal", None) if optimal else ("time limit", INFINITY)


def _value(raw: float | None, model: Model, i: int) -> float:
    """A value within its bounds, whole where it has to be; NaN where the solver left none."""
    if raw is None or not math.isfinite(raw):
        return math.nan
    value = float(round(raw)) if model.integer[i] and abs(raw - round(raw)) < 1e-5 else float(raw)
    return min(max(value, model.low[i]), model.high[i])


@contextmanager
def _silence() -> Iterator[None]:
    """HiGHS greets on the process's standard output, whatever it is told; that place is ours."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
