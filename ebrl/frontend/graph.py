"""The graph as the user declares it: stages, their ports, and the edges that `>>` draws.

Invariant: declaring never raises and never runs a stage. Every fault that is visible here is
recorded with the user's own line, and `ebrl.frontend.check` reports them all together with those it
finds itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ebrl.errors import Diagnostic
from ebrl.frontend.declaration import Declaration, Edge, End, Node, misfit
from ebrl.frontend.place import here
from ebrl.frontend.stage import In, Out, Port, Stage

Envs = int | tuple[int, int] | None
KINDS = {"simulate": "Simulator", "generate": "Policy", "train": "Learner"}


@dataclass(slots=True, eq=False)
class Graph:
    """A pipeline: stages and typed edges between their ports.

    Its methods declare stages and return nodes whose attributes are ports:

        graph = ebrl.Graph("pushcube-ppo")
        sim = graph.simulate(ManiSkill("PushCube-v1"), envs=32)
        act = graph.generate(MLPPolicy(hidden=(256, 256)))
        sim.obs >> act.obs
    """

    name: str
    where: str = field(init=False)
    path: str = field(init=False, default="")  # absolute path of the declaring file, set by `load`
    sha256: str = field(init=False, default="")
    declarations: list[Declaration] = field(init=False, default_factory=list, repr=False)
    edges: list[Edge] = field(init=False, default_factory=list, repr=False)
    faults: list[Diagnostic] = field(init=False, default_factory=list, repr=False)
    spoiled: list[End] = field(init=False, default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.where = here()

    def simulate(self, stage: Stage, *, name: str | None = None, envs: Envs = None) -> Node:
        """The environments. `envs`: how many, or `(lo, hi)` to let the planner choose, or None."""
        return self._declare(stage, name, "simulate", envs=envs)

    def generate(self, stage: Stage, *, name: str | None = None) -> Node:
        """A policy."""
        return self._declare(stage, name, "generate")

    def train(self, stage: Stage, *, name: str | None = None, max_staleness: int = 1) -> Node:
        """The learner. `max_staleness`: versions from acting to training; 0 is synchronous."""
        return self._declare(stage, name, "train", max_staleness=max_staleness)

    def stage(self, stage: Stage, *, name: str | None = None) -> Node:
        """A stage of any kind, as its class says."""
        return self._declare(stage, name, None)

    def connect(
        self,
        source: object,
        target: object,
        *,
        max_staleness: int | None = None,
        keep: Literal["all", "latest"] | None = None,
        capacity: int | None = None,
        initial: int = 0,
        reuse: int = 1,
        cast: bool | str = False,
    ) -> Edge | None:
        """`source >> target`, with a policy for the edge.

        `max_staleness`: versions, on an edge into a learner or of weights. `keep`: "latest"
        overwrites. `capacity`: bound in tokens, else derived. `initial`: tokens before the first
        firing. `reuse`: how often a token is consumed. `cast`: True converts the dtype to what the
        target declares, "float32" all floats to that. Returns None where the two ends cannot be
        connected; the fault is recorded.
        """
        if (fault := misfit(self, source, target)) is not None:
            self.record(*fault)
        ends = [end for end in (source, target) if isinstance(end, End)]
        if fault is not None or any(end.port is None for end in ends):
            self.spoiled.extend(ends)
            return None
        edge = Edge(
            source=ends[0],
            target=ends[1],
            where=here(),
            max_staleness=max_staleness,
            keep=keep,
            capacity=capacity,
            initial=initial,
            reuse=reuse,
            cast=cast,
        )
        self.edges.append(edge)
        return edge

    @property
    def folder(self) -> Path:
        """Where the user's code lies."""
        return Path(self.path).parent if self.path else Path.cwd()

    def single_edges(self) -> Iterator[tuple[int, Edge]]:
        """Edges by index, without second ones into an input (a fault of their own)."""
        taken: set[tuple[str, str]] = set()
        for number, edge in enumerate(self.edges):
            if edge.target.key not in taken:
                yield number, edge
            taken.add(edge.target.key)

    def record(self, code: str, message: str, hint: str = "") -> None:
        """Keep a fault of the line that is being executed."""
        self.faults.append(Diagnostic(code=code, message=message, where=here(), hint=hint))

    def _declare(
        self,
        stage: object,
        name: object,
        kind: str | None,
        envs: object = None,
        max_staleness: object = None,
    ) -> Node:
        known: Stage | None = None
        ports: dict[str, Port] = {}
        if isinstance(stage, Stage):
            if kind is None or stage.kind == kind:
                ports, known = self._ports_of(stage)
            else:
                right = stage.kind if stage.kind in KINDS else "stage"
                self.record(
                    "stage-wrong-kind",
                    f"graph.{kind} takes a {KINDS[kind]}, and {type(stage).__name__} is of kind "
                    f"{stage.kind!r}",
                    f"write: graph.{right}({type(stage).__name__}(…))",
                )
        else:
            is_class = isinstance(stage, type) and issubclass(stage, Stage)
            shown = stage.__name__ if isinstance(stage, type) else repr(stage)
            self.record(
                "stage-not-a-stage",
                f"graph.{kind or 'stage'} was given {shown}, "
                + ("a class, not an instance" if is_class else f"a {type(stage).__name__}"),
                f"write: {shown}(…)" if is_class else "give it an instance of a Stage",
            )
        kind = kind or (known.kind if known is not None else "stage")
        declaration = Declaration(
            graph=self,
            name=self._name_for(name, kind),
            kind=kind,
            where=here(),
            stage=known,
            ports=ports,
            envs=envs,
            max_staleness=max_staleness,
        )
        self.declarations.append(declaration)
        return Node(declaration)

    def _ports_of(self, stage: Stage) -> tuple[dict[str, Port], Stage | None]:
        """The stage and its ports, or None where it cannot say them, which is recorded."""
        try:
            ports = dict(stage.ports())
        except Exception as error:
            self.record(
                "stage-broken",
                f"{type(stage).__name__}.ports() failed: {type(error).__name__}: {error}",
                "ports() returns a dict of name to In or Out",
            )
            return {}, None
        wrong = {name: port for name, port in ports.items() if not isinstance(port, (In, Out))}
        for name, port in wrong.items():
            self.record(
                "stage-broken",
                f"{type(stage).__name__}.ports() gives {name!r} as {type(port).__name__}",
                "a port is an ebrl.In(…) or an ebrl.Out(…)",
            )
        return {name: port for name, port in ports.items() if name not in wrong}, stage

    def _name_for(self, name: object, kind: str) -> str:
        """The name given, or the kind, numbered from the second on."""
        taken = {each.name for each in self.declarations}
        if name is None:
            numbered = (f"{kind}{number or ''}" for number in (0, *range(2, len(taken) + 3)))
            return next(each for each in numbered if each not in taken)
        text = str(name)
        valid = isinstance(name, str) and name.isascii() and name.replace("-", "_").isidentifier()
        if not valid:
            self.record(
                "stage-name-invalid",
                f"a stage is named {name!r}",
                "letters, digits, _ and -, beginning with a letter: pins and logs use the name",
            )
        elif text in taken:
            first = next(each for each in self.declarations if each.name == text)
            self.record(
                "stage-name-duplicate",
                f"two stages are named {text!r}; the first one is at {first.where}",
                f"name this one otherwise, for example {text}2",
            )
        return text if text not in taken else f"{text}{len(taken) + 1}"
