"""The types of ports, by unification along the edges.

What is known (declared, or told by the environment) flows to the ports that leave it open, symbolic
dimensions are bound where specs meet, and what contradicts is reported with both ends.
Invariant: an edge is typed once; where a type is missing because of a fault that is already
reported, nothing more is said about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ebrl.errors import Diagnostic
from ebrl.frontend.declaration import Edge
from ebrl.frontend.graph import Graph
from ebrl.frontend.place import listed, near
from ebrl.frontend.spec import DTYPES, Dim, Spec, Tensor

Key = tuple[str, str]  # stage, port


@dataclass(slots=True)
class Types:
    """What inference found: the spec of each edge (by index), and the faults."""

    edges: dict[int, Spec] = field(default_factory=dict)
    faults: list[Diagnostic] = field(default_factory=list)


def transition_of(obs: Spec) -> Spec:
    """What a simulator says of one step."""
    rest = {
        "reward": Tensor("float32"),
        "terminated": Tensor("bool"),
        "truncated": Tensor("bool"),
    }
    return obs.under("obs") | Spec(rest)


def behaviour_of(action: Spec) -> Spec:
    """What a policy says of one decision."""
    return action.under("action") | Spec(
        {"log_prob": Tensor("float32"), "version": Tensor("int64")}
    )


def infer(graph: Graph, known: Mapping[Key, Spec], *, complete: bool) -> Types:
    """Type every edge.

    `known`: what the environment told. `complete`: no reported fault keeps a type away.
    """
    types = {**_declared(graph), **known}
    _propagate(graph, types)
    result = Types()
    bindings = _Bindings()
    for number, edge in graph.single_edges():
        source, target = types.get(edge.source.key), types.get(edge.target.key)
        if source is None or target is None:
            if complete and not edge.latest:
                result.faults.append(_unknown(edge))
            continue
        source = _cast(edge, source, target)
        if faults := _unify(edge, source, target, bindings):
            result.faults += faults
        else:
            result.edges[number] = target
    for number, spec in list(result.edges.items()):
        edge, bound = graph.edges[number], bindings.substitute(spec)
        result.edges[number] = bound
        fault = _unbound(edge, bound) or _refused(edge, bound)
        if fault is not None:
            result.faults.append(fault)
    return result


def _declared(graph: Graph) -> dict[Key, Spec]:
    """Declared specs; a symbol is marked with its stage: equal ones of two stages are unrelated."""
    found: dict[Key, Spec] = {}
    marks: set[str] = set()
    for number, each in enumerate(graph.declarations):
        mark = re.sub(r"\W", "_", each.name)
        mark = mark if mark not in marks else f"{mark}_{number}"
        marks.add(mark)
        for name, port in each.ports.items():
            if port.spec is not None:
                found[each.name, name] = _marked(port.spec, mark)
    return found


def _marked(spec: Spec, mark: str) -> Spec:
    def dim(each: Dim) -> Dim:
        return each if isinstance(each, int) else f"{each}_of_{mark}"

    return Spec({path: Tensor(t.dtype, tuple(map(dim, t.shape))) for path, t in spec.items()})


def _propagate(graph: Graph, types: dict[Key, Spec]) -> None:
    """Let known specs flow along edges, either way, until nothing changes."""
    before = -1
    while before != len(types):
        before = len(types)
        for edge in graph.edges:
            for here, there in ((edge.source, edge.target), (edge.target, edge.source)):
                if here.key in types and there.key not in types:
                    known = types[here.key]
                    forward = here is edge.source
                    types[there.key] = _cast(edge, known, known) if forward else known
        for each in graph.declarations:
            behaviour, action = (each.name, "behaviour"), (each.name, "action")
            if each.kind == "generate" and action in types and behaviour not in types:
                types[behaviour] = behaviour_of(types[action])


class _Bindings:
    """Symbol → what it is bound to, and the edge that bound it."""

    def __init__(self) -> None:
        self._bound: dict[str, Dim] = {}
        self._by: dict[str, Edge] = {}

    def resolve(self, dim: Dim) -> Dim:
        while isinstance(dim, str) and dim in self._bound:
            dim = self._bound[dim]
        return dim

    def meet(self, a: Dim, b: Dim, edge: Edge) -> bool:
        """Make two dimensions equal, if they can be."""
        a, b = self.resolve(a), self.resolve(b)
        if a != b and isinstance(a, str):
            self._bound[a], self._by[a] = b, edge
        elif a != b and isinstance(b, str):
            self._bound[b], self._by[b] = a, edge
        return a == b or isinstance(a, str) or isinstance(b, str)

    def history(self, spec: Spec) -> str:
        """Where the symbols of a spec got their values."""
        symbols = sorted({d for t in spec.values() for d in t.shape if isinstance(d, str)})
        told = [
            f"\n  {symbol} = {self.resolve(symbol)}, bound by {self._by[symbol]} "
            f"at {self._by[symbol].where}"
            for symbol in symbols
            if symbol in self._by
        ]
        return "".join(told)

    def substitute(self, spec: Spec) -> Spec:
        return Spec(
            {
                path: Tensor(tensor.dtype, tuple(self.resolve(dim) for dim in tensor.shape))
                for path, tensor in spec.items()
            }
        )


def _unify(edge: Edge, source: Spec, target: Spec, bindings: _Bindings) -> list[Diagnostic]:
    ends = f"\n  {edge.source} gives {source}\n  {edge.target} takes {target}"
    if set(source) != set(target):
        return [_names_differ(edge, source, target, ends)]
    faults = []
    for path in source:
        given, taken = source[path], target[path]
        at = f" of {path!r}" if path else ""
        if given.dtype != taken.dtype:
            faults += _dtype_fault(edge, given, taken, at, ends)
        if len(given.shape) != len(taken.shape):
            message = (
                f"{edge}: the shape{at} has {len(given.shape)} dimensions, "
                f"{len(taken.shape)} wanted{ends}"
            )
            hint = "shapes are of one item: neither environments nor time nor chunk are in them"
            faults.append(
                Diagnostic(code="shape-mismatch", message=message, where=edge.where, hint=hint)
            )
            continue
        history = bindings.history(target) + bindings.history(source)
        pairs = list(zip(given.shape, taken.shape, strict=True))
        bad = [n for n, (a, b) in enumerate(pairs) if not bindings.meet(a, b, edge)]
        if bad:
            details = listed(
                f"dimension {n} is {bindings.resolve(pairs[n][0])}, "
                f"not {bindings.resolve(pairs[n][1])}"
                for n in bad
            )
            message = f"{edge}: the shape{at} differs: {details}{ends}{history}"
            hint = "change one of the two declarations, or put a stage between that converts"
            faults.append(
                Diagnostic(code="shape-mismatch", message=message, where=edge.where, hint=hint)
            )
    return faults


def _cast(edge: Edge, source: Spec, target: Spec) -> Spec:
    """The source as its edge casts it: of a dtype by name, or of what the target declares."""
    wanted = edge.cast if isinstance(edge.cast, str) else None
    if edge.cast is False or (wanted is not None and wanted not in DTYPES):
        return source
    made = {}
    for path, tensor in source.items():
        dtype = tensor.dtype
        if wanted is not None and np.issubdtype(dtype, np.floating):
            dtype = wanted
        elif wanted is None and path in target:
            dtype = target[path].dtype
        possible = np.can_cast(tensor.dtype, dtype, "same_kind")
        made[path] = Tensor(dtype if possible else tensor.dtype, tensor.shape)
    return Spec(made)


def _dtype_fault(edge: Edge, given: Tensor, taken: Tensor, at: str, ends: str) -> list[Diagnostic]:
    safe = np.can_cast(given.dtype, taken.dtype, "same_kind")
    code = "cast-impossible" if edge.cast is not False and not safe else "dtype-mismatch"
    message = f"{edge}: the dtype{at} is {given.dtype}, {taken.dtype} wanted{ends}"
    hint = "convert on purpose: graph.connect(…, …, cast=True)"
    if not safe:
        hint = (
            f"{given.dtype} cannot become {taken.dtype} by a cast; change one of the declarations"
        )
    return [Diagnostic(code=code, message=message, where=edge.where, hint=hint)]


def _names_differ(edge: Edge, source: Spec, target: Spec, ends: str) -> Diagnostic:
    missing = [path or "(bare)" for path in target if path not in source]
    extra = [path or "(bare)" for path in source if path not in target]
    parts = [f"{listed(missing)} missing"] * bool(missing) + [f"{listed(extra)} not wanted"] * bool(
        extra
    )
    hint = "both ends name the same tensors; a bare tensor has no name"
    if missing and extra and "(bare)" not in (missing[0], extra[0]):
        hint = f"{missing[0]}: {near(missing[0], extra)}"
    return Diagnostic(
        code="names-mismatch",
        message=f"{edge}: the tensors differ: {', '.join(parts)}{ends}",
        where=edge.where,
        hint=hint,
    )


def _unknown(edge: Edge) -> Diagnostic:
    return Diagnostic(
        code="spec-unknown",
        message=f"{edge}: neither end says what flows here",
        where=edge.where,
        hint=f"declare a spec on one of them, as {edge.source.name} = ebrl.Out(ebrl.Spec(…))",
    )


def _unbound(edge: Edge, spec: Spec) -> Diagnostic | None:
    free = sorted({dim for tensor in spec.values() for dim in tensor.shape if isinstance(dim, str)})
    if not free:
        return None
    return Diagnostic(
        code="dimension-unbound",
        message=f"{edge}: nothing says how large {listed(free)} is in {spec}",
        where=edge.where,
        hint="give the dimension a number at one end",
    )


def _refused(edge: Edge, spec: Spec) -> Diagnostic | None:
    """Ask the stage that takes it."""
    stage, port = edge.target.declaration.stage, edge.target.name
    assert stage is not None
    try:
        reason = stage.accepts(port, spec)
    except Exception as error:
        return Diagnostic(
            code="stage-broken",
            message=f"{type(stage).__name__}.accepts({port!r}, {spec}) failed: "
            f"{type(error).__name__}: {error}",
            where=edge.target.declaration.where,
            hint="accepts() returns None, or says in words why not",
        )
    if reason is None:
        return None
    return Diagnostic(
        code="spec-refused",
        message=f"{edge}: {edge.target} refuses {spec}: {reason}",
        where=edge.where,
        hint="choose another stage, or another observation",
    )
