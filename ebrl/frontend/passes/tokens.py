"""From declared ports to tokens: what a firing of each stage takes and gives, and where loops begin
full.

A token stands for one environment step. So a policy that answers k actions at once (`chunk = k`)
moves k tokens a firing, a learner takes `batch` of them, and the environments are the initial
tokens of the loop between simulator and policy: each holds its first observation before anything
has fired.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ebrl.frontend.declaration import Declaration, Edge, End
from ebrl.frontend.graph import Graph
from ebrl.frontend.rates import Flow, loops
from ebrl.frontend.stage import In


def whole(value: object, least: int = 1) -> bool:
    """Is it an int (and no bool) of at least `least`?"""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def chunk_of(declaration: Declaration) -> int:
    """Actions that a policy answers at once; 1 where it does not say, or says nonsense."""
    value = getattr(declaration.stage, "chunk", 1) if declaration.kind == "generate" else 1
    return value if isinstance(value, int) and whole(value) else 1


def batch_of(declaration: Declaration) -> int:
    """Environment steps in one update of a learner; 1 for every other stage."""
    value = getattr(declaration.stage, "batch", 1) if declaration.kind == "train" else 1
    return value if isinstance(value, int) and whole(value) else 1


def tokens_per_firing(end: End) -> Fraction:
    """What one firing of the stage takes or gives at this port."""
    assert end.port is not None
    latest = isinstance(end.port, In) and end.port.latest
    per_step = end.declaration.kind == "generate" or isinstance(end.port, In)
    if latest or not per_step:
        return end.port.rate
    return end.port.rate * chunk_of(end.declaration) * batch_of(end.declaration)


def flows_of(graph: Graph, environments: int) -> list[Flow]:
    """One flow for each edge whose tokens are consumed; `key` is the edge's index in the graph.

    Edges that leave the simulator inside its loop hold the environments' first observations.
    """
    flows = [
        Flow(
            source=edge.source.declaration.name,
            target=edge.target.declaration.name,
            produce=tokens_per_firing(edge.source),
            consume=tokens_per_firing(edge.target),
            initial=edge.initial if whole(edge.initial, 0) else 0,
            reuse=edge.reuse if whole(edge.reuse) and trains(edge) else 1,
            key=number,
        )
        for number, edge in graph.single_edges()
        if not edge.latest
    ]
    names = [each.name for each in graph.declarations]
    simulators = {each.name for each in graph.declarations if each.kind == "simulate"}
    chunk = max((chunk_of(each) for each in graph.declarations), default=1)
    primed = [(loop, name) for loop in loops(names, flows) for name in sorted(simulators & loop)]
    for loop, name in primed:
        for number, flow in enumerate(flows):
            if flow.source == name and flow.target in loop:
                flows[number] = replace(flow, initial=environments * chunk)
    return flows


def trains(edge: Edge) -> bool:
    """Does it bring data to a learner?"""
    return edge.target.declaration.kind == "train"
