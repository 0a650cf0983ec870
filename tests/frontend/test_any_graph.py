"""Whatever is declared, in whatever order: a Program or diagnostics with places, never an
exception.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ebrl
from ebrl.frontend.check import diagnose
from ebrl.frontend.draw import as_dot, as_text
from ebrl.frontend.drawing.svg import as_svg
from ebrl.frontend.program import ActionProgram, Program
from ebrl.frontend.spec import Dim

# Machines that run several suites at once are slow; nothing here depends on time.
quick = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
VALUES: list[Any] = [None, True, 0, 1, 2, 8, -1, 0.5, "latest", (1, 4), (8, 2), [], object()]
Wrong = Callable[[Any], Any]
OPTIONS = ["capacity", "initial", "keep", "reuse", "max_staleness", "cast"]
PORTS = ["obs", "action", "transition", "behaviour", "weights", "a", "b", "c", "nothing", "_x"]


class Sim(ebrl.Simulator):
    probed = False

    def __init__(self, size: int, dtype: str) -> None:
        self.size, self.dtype = size, dtype

    def describe(self):
        action = ActionProgram(kind="discrete", dtype="int64", n=self.size)
        return ebrl.Spec(self.dtype, (self.size,)), action, None


class Act(ebrl.Policy):
    def __init__(self, chunk: Any, spec: ebrl.Spec | None) -> None:
        self.chunk = chunk
        self._spec = spec

    def ports(self):
        return {**super().ports(), "obs": ebrl.In(self._spec)}


class Learn(ebrl.Learner):
    def __init__(self, horizon: Any, batch: Any) -> None:
        self.horizon, self.batch = horizon, batch


class Own(ebrl.Stage):
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def ports(self):
        random = Random(self.seed)
        return {
            name: random.choice([ebrl.In, ebrl.Out])(
                spec_of(random), rate=random.choice([1, 1, 1, 2])
            )
            for name in ("a", "b", "c")
        }


def spec_of(random: Random) -> ebrl.Spec | None:
    shapes: list[tuple[Dim, ...]] = [(), (3,), ("n",), ("n", "m")]
    shape = random.choice(shapes)
    tensor = ebrl.Spec(random.choice(["float32", "float64", "int64"]), shape)
    return random.choice([None, None, tensor, ebrl.Spec({"x": tensor})])


def stage_of(random: Random, wrong: Wrong) -> Any:
    stages = [
        lambda: Act(wrong(random.choice([1, 1, 4])), spec_of(random)),
        lambda: Own(random.randrange(50)),
        lambda: Own(random.randrange(50)),
        lambda: wrong(Own),
    ]
    return random.choice(stages)()


def declared(seed: int) -> ebrl.Graph:
    """A pipeline, more or less: stages, the five usual edges, and others that fit more or less."""
    random = Random(seed)
    often = random.choice([0.0, 0.02, 0.3])

    def wrong(right: Any) -> Any:
        return random.choice(VALUES) if random.random() < often else right

    graph = ebrl.Graph(wrong("graph"))
    nodes = [
        graph.simulate(Sim(3, "float32"), envs=wrong(8)),
        graph.generate(Act(wrong(1), None)),
        graph.train(Learn(wrong(16), wrong(256)), max_staleness=wrong(1)),
    ]
    for _ in range(random.randrange(4)):
        stage = stage_of(random, wrong)
        usual = graph.generate if isinstance(stage, Act) else graph.stage
        declare = graph.simulate if random.random() < often else usual
        nodes.append(declare(stage, name=wrong(None)))
    sim, act, ppo = nodes[:3]
    for source, target in (
        (sim.obs, act.obs),
        (act.action, sim.action),
        (sim.transition, ppo.transition),
        (act.behaviour, ppo.behaviour),
        (ppo.weights, act.weights),
    ):
        if random.random() >= often / 3:
            source >> target
    outputs = [node[name] for node in nodes for name in names(graph, node, ebrl.Out)]
    for node in nodes[3:]:
        for name in names(graph, node, ebrl.In):
            source = wrong(random.choice(outputs))
            option = random.choice(
                ["capacity", "initial", "keep", "reuse", "max_staleness", "cast"]
            )
            value = {"keep": "latest", "cast": True}.get(option, random.choice([1, 2, 64]))
            options = {option: wrong(value)} if random.random() < 0.3 else {}
            graph.connect(source, node[name], **options)
    for _ in range(random.randrange(3)):
        if random.random() < often:
            graph.connect(*(random.choice(nodes)[random.choice(PORTS)] for _ in range(2)))
    return graph


def names(graph: ebrl.Graph, node: object, direction: type) -> list[str]:
    number = next(n for n, each in enumerate(graph.declarations) if repr(each.name) in repr(node))
    ports = graph.declarations[number].ports
    return [name for name, port in ports.items() if isinstance(port, direction)]


@quick
@given(st.integers(0, 2**32))
def test_any_graph_is_a_program_or_is_told_what_is_wrong(seed: int):
    program, diagnostics = diagnose(declared(seed))
    assert (program is None) == bool(diagnostics)
    for each in diagnostics:
        assert each.code
        assert each.message
        assert each.where.startswith("tests/frontend/test_any_graph.py:")
    if program is not None:
        assert msgspec.json.decode(msgspec.json.encode(program), type=Program) == program
        for draw in (as_text, as_dot, as_svg):
            assert program.name in draw(program)


def test_these_graphs_are_sound_and_wrong_in_many_ways():
    found = [diagnose(declared(seed)) for seed in range(300)]
    assert sum(program is not None for program, _ in found) > 30
    assert len({each.code for _, diagnostics in found for each in diagnostics}) > 20


@quick
@given(st.integers(0, 2**32))
def test_diagnosing_twice_says_the_same(seed: int):
    graph = declared(seed)
    assert diagnose(graph) == diagnose(graph)
