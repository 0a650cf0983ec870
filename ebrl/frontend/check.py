"""Everything that can be known to be wrong with a graph, found before anything runs, and told at
once.

The passes: connections and settings, then the environment's own word, then types, rates and
arithmetic. A pass is skipped only where what it needs is already reported as wrong, so one mistake
is one message.
Invariant: `check` returns a Program, or raises one GraphError that carries every diagnostic.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec

from ebrl.errors import Diagnostic, EbrlError, GraphError
from ebrl.frontend.declaration import Declaration
from ebrl.frontend.environment import Description, ask
from ebrl.frontend.failure import failure
from ebrl.frontend.graph import Graph
from ebrl.frontend.passes import flow
from ebrl.frontend.passes.connections import connection_faults
from ebrl.frontend.passes.infer import Key, Types, infer, transition_of
from ebrl.frontend.passes.settings import environments, plain, stage_faults
from ebrl.frontend.passes.tokens import batch_of, chunk_of, tokens_per_firing
from ebrl.frontend.passes.training import arithmetic_faults, staleness_faults, training_of
from ebrl.frontend.place import in_reading_order, short
from ebrl.frontend.probe import probe
from ebrl.frontend.program import (
    EdgeProgram,
    EnvironmentProgram,
    Program,
    StageProgram,
    TrainingProgram,
)
from ebrl.frontend.spec import Spec
from ebrl.frontend.stage import dotted_name


def check(graph: Graph, *, probe_limit_s: float | None = None) -> Program:
    """The checked graph as data. GraphError with every diagnostic where it is wrong."""
    program, diagnostics = diagnose(graph, probe_limit_s=probe_limit_s)
    if program is None:
        raise GraphError.of(diagnostics)
    return program


def diagnose(
    graph: Graph, *, probe_limit_s: float | None = None
) -> tuple[Program | None, tuple[Diagnostic, ...]]:
    """Program and no diagnostics, or None and at least one."""
    found: list[Diagnostic] = [*graph.faults, *connection_faults(graph)]
    connected = not found
    unsound: set[str] = set()
    for each in graph.declarations:
        faults = list(stage_faults(each))
        found += faults
        if faults or each.stage is None:
            unsound.add(each.name)
    description = None
    simulator = _only(graph, "simulate")
    if simulator is not None and simulator.stage is not None and simulator.name not in unsound:
        description, faults = _describe(graph, simulator, probe_limit_s)
        found += faults
    types = infer(
        graph, _known(simulator, description), complete=connected and description is not None
    )
    found += types.faults
    learner = _only(graph, "train")
    if learner is not None:
        found += staleness_faults(graph, learner)
    rates = None
    if simulator is not None and not unsound:
        low, high = environments(simulator) or (1, 1)
        rates, faults = flow.analyse(graph, simulator, environments=(low, high))
        found += faults
        if learner is not None:
            chunk = _chunk(graph)
            found += arithmetic_faults(learner, training_of(graph, learner), (low, high), chunk)
    if found:
        return None, in_reading_order(found)
    assert simulator is not None
    assert learner is not None
    assert description is not None
    assert rates is not None
    return _program(graph, simulator, learner, description, types, rates), ()


def _only(graph: Graph, kind: str) -> Declaration | None:
    """The first stage of the kind; that there is one and no second is checked elsewhere."""
    return next((each for each in graph.declarations if each.kind == kind), None)


def _chunk(graph: Graph) -> int:
    """Actions answered at once by the policy that drives the environments."""
    simulator = _only(graph, "simulate")
    for edge in graph.edges:
        if edge.target.declaration is simulator and edge.source.declaration.kind == "generate":
            return chunk_of(edge.source.declaration)
    policy = _only(graph, "generate")
    return chunk_of(policy) if policy is not None else 1


def _describe(
    graph: Graph, simulator: Declaration, limit_s: float | None
) -> tuple[Description | None, list[Diagnostic]]:
    """Ask the environment, in a process of its own unless its class says `probed = False`."""
    stage = simulator.stage
    assert stage is not None
    try:
        if graph.path and getattr(stage, "probed", True):
            return (
                probe(
                    stage,
                    path=graph.path,
                    sha256=graph.sha256,
                    name=simulator.name,
                    where=simulator.where,
                    limit_s=limit_s,
                ),
                [],
            )
        return ask(stage), []
    except EbrlError as error:
        return None, [
            msgspec.structs.replace(each, where=each.where or simulator.where)
            for each in error.diagnostics
        ]
    except Exception as error:
        told = failure(error, folder=graph.folder, fallback=simulator.where).diagnostics[0]
        text = f"the environment of {simulator.name!r} could not be described: {told.message}"
        return None, [msgspec.structs.replace(told, code="probe-failed", message=text)]


def _known(simulator: Declaration | None, description: Description | None) -> dict[Key, Spec]:
    """What the environment's description says of the simulator's ports that declare nothing."""
    if simulator is None or description is None:
        return {}
    obs = Spec(description.obs)
    told = {"obs": obs, "action": description.action_spec, "transition": transition_of(obs)}
    return {(simulator.name, name): spec for name, spec in told.items() if name in simulator.ports}


def _program(
    graph: Graph,
    simulator: Declaration,
    learner: Declaration,
    description: Description,
    types: Types,
    rates: flow.Rates,
) -> Program:
    low, high = environments(simulator) or (1, 1)
    training = training_of(graph, learner)
    return Program(
        name=graph.name,
        path=graph.path,
        sha256=graph.sha256,
        stages=tuple(_stage(each, rates.firings[each.name]) for each in graph.declarations),
        edges=tuple(_edges(graph, types, rates, training)),
        environment=EnvironmentProgram(
            obs=dict(_observed(graph, simulator, types) or description.obs),
            action=msgspec.structs.replace(description.action, chunk=_chunk(graph)),
            min_count=low,
            max_count=high,
            max_episode_steps=description.max_episode_steps,
        ),
        training=training,
    )


def _observed(graph: Graph, simulator: Declaration, types: Types) -> Spec | None:
    """The observation as the policy takes it (after a cast, if its edge has one)."""
    for number, edge in enumerate(graph.edges):
        kinds = edge.source.declaration.kind, edge.target.declaration.kind
        if kinds == ("simulate", "generate") and edge.source.key == (simulator.name, "obs"):
            return types.edges[number]
    return None


def _stage(declaration: Declaration, firings: Fraction) -> StageProgram:
    stage = declaration.stage
    assert stage is not None
    settings = plain(stage.settings())
    assert isinstance(settings, dict)
    return StageProgram(
        name=declaration.name,
        kind=declaration.kind,
        where=short(declaration.where),
        rate=str(firings),
        runs_on=stage.runs_on,
        type=dotted_name(type(stage)),
        settings=settings,
        fingerprint=stage.fingerprint(),
        items_per_firing=batch_of(declaration),
        spans_devices=stage.spans_devices,
        work=stage.work(),
        profile_key=stage.profile_key(),
    )


def _edges(
    graph: Graph, types: Types, rates: flow.Rates, training: TrainingProgram
) -> list[EdgeProgram]:
    made = []
    for number, edge in enumerate(graph.edges):
        bounded = edge.latest or edge.target.declaration.kind == "train"
        bound = training.max_staleness if bounded else None
        made.append(
            EdgeProgram(
                source=str(edge.source),
                target=str(edge.target),
                where=short(edge.where),
                spec=dict(types.edges.get(number, {})),
                produce=str(tokens_per_firing(edge.source)),
                consume="0" if edge.latest else str(tokens_per_firing(edge.target)),
                initial=rates.initial[number],
                capacity=rates.capacity[number],
                max_staleness=bound if edge.max_staleness is None else edge.max_staleness,
                keep="latest" if edge.latest else "all",
                reuse=edge.reuse,
                cast=edge.cast is not False,
            )
        )
    return made
