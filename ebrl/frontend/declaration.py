"""The pieces a graph is declared with: a declared stage, the ends at its ports, the edges between
them.

Invariant: none of these raises at the user; what cannot be is recorded in the graph, with the
user's line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ebrl.frontend.place import meant, near
from ebrl.frontend.stage import In, Out, Port, Stage

if TYPE_CHECKING:
    from ebrl.frontend.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Declaration:
    """One stage as declared. `stage` is None where what was given is not a stage."""

    graph: Graph
    name: str
    kind: str
    where: str
    stage: Stage | None
    ports: dict[str, Port]
    envs: object = None
    max_staleness: object = None


class Node:
    """A declared stage; its attributes are its ports (`sim.obs`, or `sim["obs"]`)."""

    __slots__ = ("_declaration",)
    _declaration: Declaration

    def __init__(self, declaration: Declaration) -> None:
        object.__setattr__(self, "_declaration", declaration)

    def __getattr__(self, name: str) -> End:
        if name.startswith("__"):
            raise AttributeError(name)  # a protocol of Python's asks, not the user
        return self[name]

    def __getitem__(self, name: str) -> End:
        declared = self._declaration
        port, guess = declared.ports.get(name), name
        if port is None and declared.stage is not None:
            declared.graph.record(
                "port-unknown",
                f"{declared.name} ({type(declared.stage).__name__}) has no port {name!r}",
                near(str(name), declared.ports),
            )
            guess = meant(str(name), declared.ports) or name
        return End(declared, str(guess), port)

    def __setattr__(self, name: str, value: object) -> None:
        declared = self._declaration
        declared.graph.record(
            "port-assigned",
            f"{declared.name}.{name} is assigned; a port is connected, not assigned",
            f"write: <output> >> {declared.name}.{name}",
        )

    def __rshift__(self, other: object) -> Edge | None:
        return self._declaration.graph.connect(self, other)

    def __rrshift__(self, other: object) -> Edge | None:
        return self._declaration.graph.connect(other, self)

    def __repr__(self) -> str:
        return f"<{self._declaration.kind} stage {self._declaration.name!r}>"


@dataclass(frozen=True, slots=True)
class End:
    """One port of one declared stage.

    `port` is None where the stage has no such port; `name` is then what was probably meant.
    """

    declaration: Declaration
    name: str
    port: Port | None

    def __rshift__(self, other: object) -> Edge | None:
        return self.declaration.graph.connect(self, other)

    def __rrshift__(self, other: object) -> Edge | None:
        return self.declaration.graph.connect(other, self)

    @property
    def key(self) -> tuple[str, str]:
        return self.declaration.name, self.name

    def __str__(self) -> str:
        return f"{self.declaration.name}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edge:
    """A declared edge from an output to an input; what `connect` does not state is derived."""

    source: End
    target: End
    where: str
    max_staleness: int | None = None
    keep: Literal["all", "latest"] | None = None
    capacity: int | None = None
    initial: int = 0
    reuse: int = 1
    cast: bool | str = False

    @property
    def latest(self) -> bool:
        """Does a firing of the target read the newest token and consume none?"""
        port = self.target.port
        return (isinstance(port, In) and port.latest) or self.keep == "latest"

    def __rshift__(self, other: object) -> Edge | None:
        self.source.declaration.graph.record(
            "edge-chained",
            f"{self} is an edge, and an edge leads nowhere further",
            "write one edge a line: a.out >> b.inp",
        )
        return None

    def __str__(self) -> str:
        return f"{self.source} >> {self.target}"


def misfit(graph: Graph, source: object, target: object) -> tuple[str, str, str] | None:
    """Why these two cannot be the ends of an edge: code, message, hint."""
    for end in (source, target):
        if isinstance(end, Node):
            declared = end._declaration
            wanted = Out if end is source else In
            names = [n for n, port in declared.ports.items() if isinstance(port, wanted)]
            hint = near("", [f"{declared.name}.{n}" for n in names])
            return "port-not-named", f"{declared.name} is a stage; an edge joins ports", hint
        if not isinstance(end, End):
            return "port-not-a-port", *_no_port(end)
    assert isinstance(source, End)
    assert isinstance(target, End)
    for end in (source, target):
        if end.declaration.graph is not graph or end.declaration not in graph.declarations:
            other = end.declaration.graph.name
            text = f"{source} >> {target} leaves the graph: {end} belongs to {other!r}"
            return "edge-between-graphs", text, "declare both stages in the same graph"
    if source.port is None or target.port is None:
        return None  # reported where the port was asked for
    if isinstance(source.port, In) or isinstance(target.port, Out):
        wrong = source if isinstance(source.port, In) else target
        is_a = "an input" if wrong is source else "an output"
        text = f"{source} >> {target}: {wrong} is {is_a}; an edge leads from output to input"
        turned = isinstance(source.port, In) and isinstance(target.port, Out)
        wanted = Out if wrong is source else In
        ports = wrong.declaration.ports.items()
        right = [f"{wrong.declaration.name}.{n}" for n, p in ports if isinstance(p, wanted)]
        hint = f"turn it round: {target} >> {source}" if turned else near(str(wrong), right)
        return "port-direction", text, hint
    if source.declaration is target.declaration:
        text = f"{source} >> {target}: a stage cannot feed itself"
        return "edge-self", text, "keep what it remembers inside the stage"
    return None


def _no_port(thing: object) -> tuple[str, str]:
    """What stands where a port should, and what to write."""
    returned = "use what graph.simulate, generate, train or stage returned: act = graph.generate(…)"
    if isinstance(thing, Port):
        return "a port of a stage's class stands where one of a declared stage should", returned
    if isinstance(thing, Stage):
        return (
            f"the {type(thing).__name__} itself stands where a port of a declared stage should",
            returned,
        )
    return f"{thing!r} is no port ({type(thing).__name__})", "write: a.out >> b.inp"
