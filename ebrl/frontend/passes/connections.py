"""What is wrong with how stages are connected: inputs, kinds, and what is stated on an edge.

Every function gives the diagnostics of one question, and none looks at types or rates.
"""

from __future__ import annotations

from collections.abc import Iterator

from ebrl.errors import Diagnostic
from ebrl.frontend.declaration import Edge
from ebrl.frontend.graph import KINDS, Graph
from ebrl.frontend.passes.tokens import whole
from ebrl.frontend.place import listed
from ebrl.frontend.spec import DTYPES
from ebrl.frontend.stage import In, Out


def connection_faults(graph: Graph) -> Iterator[Diagnostic]:
    """All of this module, in no particular order."""
    yield from _name(graph)
    yield from _kinds(graph)
    yield from _ports(graph)
    yield from _inputs(graph)
    for edge in graph.edges:
        yield from _stated(edge)


def _name(graph: Graph) -> Iterator[Diagnostic]:
    if not isinstance(graph.name, str) or not graph.name.strip() or "/" in graph.name:
        yield Diagnostic(
            code="graph-name-invalid",
            message=f"a graph is named {graph.name!r}",
            where=graph.where,
            hint='a few words without "/": runs and reports are filed under it',
        )


def _kinds(graph: Graph) -> Iterator[Diagnostic]:
    """A pipeline steps one kind of environment and trains one learner; policies may be several."""
    present = [each.kind for each in graph.declarations]
    missing = [kind for kind in KINDS if kind not in present]
    if missing:
        yield Diagnostic(
            code="kind-missing",
            message=f"the graph has {listed([f'no {kind}' for kind in missing])} stage",
            where=graph.where,
            hint="; ".join(f"add graph.{kind}({KINDS[kind]})" for kind in missing),
        )
    for kind in ("simulate", "train"):
        same = [each for each in graph.declarations if each.kind == kind]
        for again in same[1:]:
            yield Diagnostic(
                code="kind-several",
                message=f"{again.name} is a second {kind} stage; the first is {same[0].name} "
                f"({same[0].where})",
                where=again.where,
                hint=f"one graph has one {kind} stage; give the other a kind of its own, with "
                "graph.stage(…)",
            )


def _ports(graph: Graph) -> Iterator[Diagnostic]:
    """What is wrong with the ports themselves, noted when they were made."""
    for each in graph.declarations:
        for port in each.ports.values():
            yield from port.faults


def _inputs(graph: Graph) -> Iterator[Diagnostic]:
    """Each input has one edge; an optional one may have none."""
    into: dict[tuple[str, str], list[Edge]] = {}
    for edge in graph.edges:
        into.setdefault(edge.target.key, []).append(edge)
    spoiled = {end.key for end in graph.spoiled}
    for each in graph.declarations:
        for name, port in each.ports.items():
            if not isinstance(port, In):
                continue
            edges = into.get((each.name, name), [])
            if not edges and not port.optional and (each.name, name) not in spoiled:
                meant = f" ({port.doc})" if port.doc else ""
                yield Diagnostic(
                    code="input-unconnected",
                    message=f"nothing is connected to {each.name}.{name}{meant}",
                    where=each.where,
                    hint=f"add: {_likely(graph, each.name, name)} >> {each.name}.{name}",
                )
            for again in edges[1:]:
                same = str(again) == str(edges[0])
                yield Diagnostic(
                    code="edge-duplicate" if same else "input-connected-twice",
                    message=f"{again}: {again.target} already has {edges[0]} ({edges[0].where})",
                    where=again.where,
                    hint="remove this line"
                    if same
                    else "an input has one edge; merge with a stage between",
                )


def _likely(graph: Graph, stage: str, port: str) -> str:
    """The output that an input probably wants: one of the same name elsewhere."""
    for each in graph.declarations:
        if each.name != stage and isinstance(each.ports.get(port), Out):
            return f"{each.name}.{port}"
    return "<an output>"


def _stated(edge: Edge) -> Iterator[Diagnostic]:
    """What the user states on an edge must make sense there."""

    def fault(code: str, message: str, hint: str) -> Diagnostic:
        return Diagnostic(code=code, message=f"{edge}: {message}", where=edge.where, hint=hint)

    numbers = [("capacity", edge.capacity, 1), ("max_staleness", edge.max_staleness, 0)]
    numbers += [("initial", edge.initial, 0), ("reuse", edge.reuse, 1)]
    for name, value, least in numbers:
        if not whole(value, least) and not (
            value is None and name in ("capacity", "max_staleness")
        ):
            yield fault(
                "edge-option-invalid", f"{name} = {value!r}", f"a whole number of at least {least}"
            )
    if edge.keep not in (None, "all", "latest"):
        yield fault("edge-option-invalid", f"keep = {edge.keep!r}", 'keep is "all" or "latest"')
    if not isinstance(edge.cast, bool) and edge.cast not in DTYPES:
        hint = "True casts to what the target declares, a dtype name all floating tensors to that"
        yield fault("edge-option-invalid", f"cast = {edge.cast!r}", hint)

    kinds = edge.source.declaration.kind, edge.target.declaration.kind
    trains = kinds[1] == "train"
    port_latest = isinstance(edge.target.port, In) and edge.target.port.latest
    if edge.max_staleness is not None and not trains and not edge.latest:
        yield fault(
            "staleness-misplaced",
            f"max_staleness = {edge.max_staleness} where nothing can be stale: every token is "
            "taken in order",
            "staleness is of edges into a train stage, and of weights (or other newest-wins edges)",
        )
    if edge.keep == "latest" and not port_latest:
        if trains:
            yield fault(
                "keep-misplaced",
                'keep = "latest" would drop what was not trained on',
                "a learner takes every token; bound how old they are with max_staleness",
            )
        elif set(kinds) == {"simulate", "generate"}:
            yield fault(
                "keep-misplaced",
                'keep = "latest" would lose environments: each waits for the answer to its token',
                "remove keep",
            )
    if edge.keep == "all" and port_latest:
        yield fault(
            "buffer-unbounded",
            f'keep = "all", but {edge.target} reads the newest token and consumes none: '
            "the buffer only grows",
            "remove keep; such an input keeps the newest",
        )
    if edge.latest and edge.capacity is not None:
        yield fault(
            "capacity-misplaced", "a capacity, where only the newest is kept", "remove capacity"
        )
    if whole(edge.reuse, 2) and not trains:
        yield fault(
            "reuse-misplaced",
            f"reuse = {edge.reuse} on an edge to a {kinds[1]} stage",
            "only what a learner takes may be taken again",
        )
