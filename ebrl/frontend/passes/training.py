"""The arithmetic between environments, horizon, chunk and batch, said in numbers when it does not
fit.

With T = horizon (decisions in a segment), k = chunk (environment steps of a decision), a segment is
T·k environment steps, and a batch is a whole number of segments. When nothing may be stale
(max_staleness 0) every environment gives the same number of whole segments to each batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from ebrl.errors import Diagnostic
from ebrl.frontend.declaration import Declaration
from ebrl.frontend.graph import Graph
from ebrl.frontend.passes.settings import staleness
from ebrl.frontend.passes.tokens import whole
from ebrl.frontend.program import TrainingProgram


def training_of(graph: Graph, learner: Declaration) -> TrainingProgram:
    """The learner's sound numbers; an edge may ask for fresher data than the learner."""
    allowed = staleness(learner)
    assert isinstance(allowed, int)
    stage = learner.stage
    return TrainingProgram(
        horizon=getattr(stage, "horizon", 1),
        batch=getattr(stage, "batch", 1),
        max_staleness=min([allowed, *(each for _, each in stated(graph, learner))]),
        epochs=getattr(stage, "epochs", None) or 1,
        minibatch=getattr(stage, "minibatch", None),
    )


def stated(graph: Graph, learner: Declaration) -> Iterator[tuple[int, int]]:
    """Edge index and bound, for the edges that state a bound for this learner's data."""
    for number, edge in enumerate(graph.edges):
        concerns = learner in (edge.target.declaration, edge.source.declaration)
        if concerns and edge.max_staleness is not None and whole(edge.max_staleness, 0):
            yield number, edge.max_staleness


def staleness_faults(graph: Graph, learner: Declaration) -> Iterator[Diagnostic]:
    """Edges that allow more than the learner does."""
    allowed = staleness(learner)
    for number, bound in stated(graph, learner):
        if isinstance(allowed, int) and whole(allowed, 0) and bound > allowed:
            edge = graph.edges[number]
            yield Diagnostic(
                code="staleness-conflict",
                message=f"{edge} allows data {bound} versions old, {learner.name} "
                f"({learner.where}) allows {allowed}",
                where=edge.where,
                hint=f"say it once: graph.train(…, max_staleness={bound})",
            )


def arithmetic_faults(
    learner: Declaration, training: TrainingProgram, environments: tuple[int, int], chunk: int
) -> Iterator[Diagnostic]:
    """Whether horizon, batch and environments fit together; the nearest values that do."""
    horizon, batch, bound = training.horizon, training.batch, training.max_staleness
    segment = horizon * chunk
    how = f"{horizon} decisions" + (f" × {chunk} actions each" if chunk > 1 else "")
    if batch % segment:
        yield Diagnostic(
            code="batch-not-segments",
            message=f"{learner.name}: batch {batch} is not a whole number of segments: a segment "
            f"is {how} = {segment} environment steps, and {batch} / {segment} = "
            f"{batch / segment:.4g}",
            where=learner.where,
            hint=f"batch {_nearest(batch, segment)}",
        )
        return
    low, high = environments
    segments = batch // segment
    if bound == 0 and not any(
        segments % count == 0 for count in range(low, min(high, segments) + 1)
    ):
        count = f"{low}" if low == high else f"{low} to {high}"
        step = low * segment
        fits = [n for n in range(1, segments + 1) if segments % n == 0]
        fitting = " or ".join(str(each * segment) for each in _shareable(segments, low, high))
        near = sorted(sorted(fits, key=lambda n: (abs(n - low), n))[:3])
        yield Diagnostic(
            code="batch-not-environments",
            message=f"{learner.name}: with max_staleness 0 each environment gives whole segments "
            f"to each batch, so batch is a multiple of envs × segment: {count} × {segment} "
            + (
                f"= {step}, and {batch} / {step} = {batch / step:.4g}"
                if low == high
                else f"≠ {batch}"
            ),
            where=learner.where,
            hint=f"batch {fitting}; or envs {', '.join(map(str, near))}; or max_staleness 1",
        )
    elif bound > 0 and low * segment > (bound + 1) * batch:
        most = (bound + 1) * batch // segment
        yield Diagnostic(
            code="environments-exceed-batch",
            message=f"{learner.name}: {low} environments × {segment} steps a segment = "
            f"{low * segment} steps in flight, but max_staleness {bound} admits "
            f"({bound} + 1) × {batch} = {(bound + 1) * batch}; "
            f"the environments beyond {most} would only wait",
            where=learner.where,
            hint=f"envs at most {most}, or batch at least {-(-low * segment // (bound + 1))}",
        )


def _shareable(segments: int, low: int, high: int) -> list[int]:
    """The nearest numbers of segments that some number of environments shares evenly."""

    def shared(count: int) -> bool:
        return any(count % each == 0 for each in range(low, min(high, count) + 1))

    below = next((each for each in range(segments - 1, low - 1, -1) if shared(each)), None)
    above = next(each for each in range(max(segments + 1, low), segments + low + 1) if shared(each))
    return [above] if below is None else [below, above]


def _nearest(value: int, step: int) -> str:
    below = value // step * step
    return f"{below} or {below + step}" if below else f"{step}"
