"""Rates, loops and buffers of a declared graph: `rates` applied, and its findings told to the user.

Invariant: what `analyse` returns holds for every stage and edge when it reports no fault: firings
per environment step, tokens before the first firing, and a bound on the tokens of each buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ebrl.errors import Diagnostic
from ebrl.frontend.declaration import Declaration, Edge
from ebrl.frontend.graph import Graph
from ebrl.frontend.passes.settings import staleness
from ebrl.frontend.passes.tokens import batch_of, flows_of, whole
from ebrl.frontend.rates import (
    Balance,
    Deadlock,
    Flow,
    balance,
    capacity,
    deadlocks,
    least_capacity,
    loops,
)

_LATEST = 2  # one that is read and one that is written


@dataclass(frozen=True, slots=True)
class Rates:
    """Firings per environment step; by edge index, tokens at the start and the bound."""

    firings: dict[str, Fraction]
    initial: dict[int, int]
    capacity: dict[int, int]


def analyse(
    graph: Graph, simulator: Declaration, *, environments: tuple[int, int]
) -> tuple[Rates, list[Diagnostic]]:
    """The rates, and every fault in them; with a fault they are only as good as they can be."""
    low, high = environments
    flows = flows_of(graph, low)
    names = [each.name for each in graph.declarations]
    balanced = balance(names, flows, simulator.name)
    faults = [_conflict(graph, flow, balanced) for flow in balanced.conflicts]
    faults += _unreached(graph, balanced, simulator)
    faults += _misplaced(graph, flows)
    initial = {number: 1 for number, edge in enumerate(graph.edges) if edge.latest}  # version 0
    initial |= {flow.key: flow.initial for flow in flows}
    bounds = dict.fromkeys(initial, _LATEST)
    if not balanced.conflicts and not balanced.unreached:
        faults += [_deadlock(graph, each) for each in deadlocks(names, flows, balanced.firings)]
        most = flows_of(graph, high)
        for flow in most:
            bounds[flow.key] = _bound(graph, most, flow, balanced)
            faults += _pinned(graph.edges[flow.key], flow)
    return Rates(balanced.firings, initial, bounds), faults


def _bound(graph: Graph, flows: Sequence[Flow], flow: Flow, balanced: Balance) -> int:
    """Pinned, or derived: a loop holds its initial tokens, all else at most η + 1 batches."""
    pinned = graph.edges[flow.key].capacity
    if pinned is not None and whole(pinned):
        return pinned
    names = [each.name for each in graph.declarations]
    for loop in loops(names, flows):
        if flow.source in loop and flow.target in loop:
            held = [
                each.initial / (balanced.firings[each.source] * each.produce)
                for each in flows
                if each.source in loop and each.target in loop
            ]
            return capacity(flow, balanced.firings, iterations=sum(held, Fraction(0)))
    return capacity(flow, balanced.firings, iterations=_in_flight(graph))


def _in_flight(graph: Graph) -> Fraction:
    """Environment steps generated and not yet trained: (max_staleness + 1) · batch, after AReaL."""
    steps = [
        (int(bound) + 1) * batch_of(each)
        for each in graph.declarations
        if each.kind == "train" and isinstance(bound := staleness(each), int) and whole(bound, 0)
    ]
    return Fraction(max(steps, default=1))


def _fault(code: str, message: str, edge: Edge, hint: str) -> Diagnostic:
    return Diagnostic(code=code, message=message, where=edge.where, hint=hint)


def _conflict(graph: Graph, flow: Flow, balanced: Balance) -> Diagnostic:
    edge = graph.edges[flow.key]
    before, after = balanced.firings[flow.source], balanced.firings[flow.target]
    given, taken = before * flow.given, after * flow.consume
    reused = f" × {flow.reuse} uses" if flow.reuse > 1 else ""
    grows = "the buffer would grow without bound" if given > taken else "the target would starve"
    return _fault(
        "rate-inconsistent",
        f"{edge}: per environment step {given} tokens come and {taken} are taken; {grows}"
        f"\n  {edge.source}: {flow.produce} a firing{reused} × {_firings(before)} = {given}"
        f"\n  {edge.target}: {flow.consume} a firing × {_firings(after)} = {taken}",
        edge,
        f"with the other edges as they are, {edge.target} must take "
        f"{before * flow.given / after} a firing, "
        f"or {edge.source} give {taken / before / flow.reuse}",
    )


def _firings(number: Fraction) -> str:
    return f"{number} firing{'s' * (number != 1)}"


def _unreached(graph: Graph, balanced: Balance, simulator: Declaration) -> Iterator[Diagnostic]:
    """Stages whose rate nothing determines; silent where their edges are already reported."""
    spoiled = {end.declaration.name for end in graph.spoiled}
    for each in graph.declarations:
        open_inputs = {edge.target.declaration.name for edge in graph.edges}
        wants = [name for name, port in each.ports.items() if port.direction == "in"]
        unconnected = bool(wants) and each.name not in open_inputs
        if each.name not in balanced.unreached or each.name in spoiled or unconnected:
            continue
        yield Diagnostic(
            code="stage-disconnected",
            message=f"{each.name} has no rate: no chain of edges joins it to {simulator.name} "
            "(newest-wins edges do not count)",
            where=each.where,
            hint="connect it, or remove it",
        )


def _misplaced(graph: Graph, flows: Sequence[Flow]) -> Iterator[Diagnostic]:
    for flow in flows:
        edge = graph.edges[flow.key]
        if edge.initial and whole(edge.initial, 0) and flow.initial != edge.initial:
            yield _fault(
                "initial-misplaced",
                f"{edge}: initial = {edge.initial}, but the environments are this loop's "
                "initial tokens",
                edge,
                "state their number: graph.simulate(…, envs=N)",
            )


def _deadlock(graph: Graph, found: Deadlock) -> Diagnostic:
    edges = [graph.edges[flow.key] for flow in found.cycle]
    last = max(found.cycle, key=lambda flow: flow.key)  # it closed the loop
    around = " → ".join([*(flow.source for flow in found.cycle), found.cycle[0].source])
    lines = "".join(
        f"\n  {edge}: needs {flow.consume}, has {tokens}"
        for edge, flow, tokens in zip(edges, found.cycle, found.tokens, strict=True)
    )
    closing = graph.edges[last.key]
    return _fault(
        "loop-without-tokens" if found.empty else "loop-short-of-tokens",
        f"the stages {around} wait for each other{lines}",
        closing,
        f"let it begin full: graph.connect(…, …, initial={last.consume}), "
        'or keep="latest" where the newest value is enough',
    )


def _pinned(edge: Edge, flow: Flow) -> Iterator[Diagnostic]:
    if edge.capacity is None or not whole(edge.capacity):
        return
    least = least_capacity(flow)
    if edge.capacity < least:
        given, taken = flow.produce, flow.consume
        yield _fault(
            "capacity-too-small",
            f"{edge}: capacity {edge.capacity}, but {least} tokens are needed to go on at all: "
            f"{given} given a firing, {taken} taken a firing, {flow.initial} at the start",
            edge,
            f"capacity at least {least}; remove it to have it derived",
        )
