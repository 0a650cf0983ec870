"""A sound graph becomes a Program: rates, types, loops and buffers as data."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

import ebrl
from ebrl.errors import GraphError
from ebrl.frontend.check import check, diagnose
from ebrl.frontend.load import load_graph
from ebrl.frontend.program import EdgeProgram, Program
from ebrl.frontend.spec import Tensor


def checked(file: Path) -> Program:
    return check(load_graph(file))


def edge(program: Program, source: str, target: str) -> EdgeProgram:
    return next(e for e in program.edges if (e.source, e.target) == (source, target))


def codes(file: Path) -> list[str]:
    return [each.code for each in diagnose(load_graph(file))[1]]


def test_the_three_stages_fire_once_a_step_and_once_a_batch(pipeline):
    program = checked(pipeline())
    rates = {each.name: each.firings_per_env_step for each in program.stages}
    assert rates == {"simulate": 1, "generate": 1, "train": Fraction(1, 256)}
    assert program.stage("train").items_per_firing == 256
    assert program.stage("simulate").items_per_firing == 1


def test_the_environments_are_the_initial_tokens_of_their_loop_and_bound_its_buffers(pipeline):
    program = checked(pipeline(simulate="Reach(), envs=8"))
    obs, action = (
        edge(program, "simulate.obs", "generate.obs"),
        edge(program, "generate.action", "simulate.action"),
    )
    assert (obs.initial, obs.capacity) == (8, 8)
    assert (action.initial, action.capacity) == (0, 8)


def test_a_range_of_environments_starts_with_the_least_and_makes_room_for_the_most(pipeline):
    program = checked(pipeline(simulate="Reach(), envs=(4, 16)"))
    obs = edge(program, "simulate.obs", "generate.obs")
    assert (obs.initial, obs.capacity) == (4, 16)
    assert program.environment is not None
    assert (program.environment.min_count, program.environment.max_count) == (4, 16)


def test_environments_left_open_are_the_planners_choice(pipeline):
    environment = checked(pipeline(simulate="Reach()")).environment
    assert environment is not None
    assert environment.min_count == 1
    assert environment.max_count > 1000


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_what_a_learner_takes_is_bounded_by_staleness_plus_one_batches(pipeline, bound: int):
    program = checked(pipeline(train=f"Learn(), max_staleness={bound}"))
    transition = edge(program, "simulate.transition", "train.transition")
    assert transition.capacity == (bound + 1) * 256
    assert transition.max_staleness == bound
    assert program.training is not None
    assert program.training.max_staleness == bound


def test_an_edge_may_ask_for_fresher_data_than_its_learner(pipeline):
    file = pipeline(train="Learn(), max_staleness=4")
    text = file.read_text().replace(
        "sim.transition >> ppo.transition",
        "graph.connect(sim.transition, ppo.transition, max_staleness=2)",
    )
    file.write_text(text)
    training = checked(file).training
    assert training is not None
    assert training.max_staleness == 2


def test_weights_are_kept_newest_start_at_version_zero_and_are_not_balanced(pipeline):
    weights = edge(checked(pipeline()), "train.weights", "generate.weights")
    assert (weights.keep, weights.initial, weights.capacity, weights.consume) == (
        "latest",
        1,
        2,
        "0",
    )
    assert weights.spec == {}


def test_a_policy_that_answers_k_actions_fires_once_in_k_steps(pipeline):
    program = checked(pipeline(generate="Linear(chunk=4)"))
    assert program.stage("generate").rate == "1/4"
    obs = edge(program, "simulate.obs", "generate.obs")
    assert (obs.produce, obs.consume, obs.initial) == ("1", "4", 32)
    behaviour = edge(program, "generate.behaviour", "train.behaviour")
    assert (behaviour.produce, behaviour.consume) == ("4", "256")
    assert program.environment is not None
    assert program.environment.action.chunk == 4
    assert program.environment.action.tensor == Tensor("float32", (4, 2))


def test_transition_and_behaviour_are_typed_by_the_environment(pipeline):
    program = checked(pipeline(simulate="Reach(size=5), envs=8"))
    assert edge(program, "simulate.transition", "train.transition").spec == {
        "obs": Tensor("float32", (5,)),
        "reward": Tensor("float32"),
        "terminated": Tensor("bool"),
        "truncated": Tensor("bool"),
    }
    assert edge(program, "generate.behaviour", "train.behaviour").spec == {
        "action": Tensor("float32", (2,)),
        "log_prob": Tensor("float32"),
        "version": Tensor("int64"),
    }


def test_a_symbolic_dimension_is_bound_by_what_flows_in(pipeline):
    classes = """
    class Any(Linear):
        obs = ebrl.In(ebrl.Spec("float32", ("n",)))
    """
    program = checked(pipeline(simulate="Reach(size=7), envs=8", generate="Any()", classes=classes))
    assert edge(program, "simulate.obs", "generate.obs").spec == {"": Tensor("float32", (7,))}


def test_a_symbol_is_bound_through_a_stage_that_passes_it_on(pipeline):
    classes = """
    class Whiten(ebrl.Stage):
        kind = "whiten"
        raw = ebrl.In(ebrl.Spec("float32", ("n",)))
        white = ebrl.Out(ebrl.Spec("float32", ("n",)))

    class Sink(ebrl.Stage):
        kind = "sink"
        inp = ebrl.In(ebrl.Spec("float32", ("anything",)))
    """
    more = """
    whiten = graph.stage(Whiten())
    sink = graph.stage(Sink())
    whiten.white >> sink.inp
    sim.obs >> whiten.raw
    """
    program = checked(pipeline(simulate="Reach(size=6), envs=8", classes=classes, more=more))
    assert edge(program, "whiten.white", "sink.inp").spec == {"": Tensor("float32", (6,))}


@pytest.mark.parametrize("cast", ["True", '"float32"'])
def test_an_explicit_cast_makes_the_environment_speak_the_policys_dtype(pipeline, cast: str):
    classes = """
    class Single(Linear):
        obs = ebrl.In(ebrl.Spec("float32", (3,)))
    """
    file = pipeline(simulate='Reach(dtype="float64"), envs=8', generate="Single()", classes=classes)
    assert codes(file) == ["dtype-mismatch"]
    edge_text = f"graph.connect(sim.obs, act.obs, cast={cast})"
    file.write_text(file.read_text().replace("sim.obs >> act.obs", edge_text))
    program = checked(file)
    assert program.environment is not None
    assert program.environment.obs == {"": Tensor("float32", (3,))}
    assert edge(program, "simulate.obs", "generate.obs").cast


def test_a_cast_by_name_types_a_policy_that_takes_anything(pipeline):
    file = pipeline(simulate='Reach(dtype="float64"), envs=8')
    file.write_text(
        file.read_text().replace(
            "sim.obs >> act.obs", 'graph.connect(sim.obs, act.obs, cast="float32")'
        )
    )
    environment = checked(file).environment
    assert environment is not None
    assert environment.obs == {"": Tensor("float32", (3,))}


def test_stages_of_other_kinds_get_their_rate_from_their_ports(pipeline):
    classes = """
    class Judge(Score):
        frames = ebrl.In(ebrl.Spec("float32", (3,)), rate=16)
        score = ebrl.Out(ebrl.Spec("float32"), rate=16)
    """
    more = """
    judge = graph.stage(Judge(), name="judge")
    sim.obs >> judge.frames
    judge.score >> ppo.score
    """
    program = checked(pipeline(train="ScoredLearn()", classes=classes, more=more))
    assert program.stage("judge").rate == "1/16"
    assert program.stage("judge").kind == "reward"
    assert edge(program, "judge.score", "train.score").capacity == 512


def test_a_stage_between_policy_and_simulator_is_in_the_loop(pipeline):
    classes = """
    class Filter(ebrl.Stage):
        kind = "filter"
        raw = ebrl.In(ebrl.Spec("float32", (2,)))
        safe = ebrl.Out(ebrl.Spec("float32", (2,)))
    """
    file = pipeline(classes=classes)
    file.write_text(
        file.read_text().replace(
            "act.action >> sim.action",
            "safety = graph.stage(Filter())\nact.action >> safety.raw\nsafety.safe >> sim.action",
        )
    )
    program = checked(file)
    assert program.stage("filter").rate == "1"
    assert edge(program, "filter.safe", "simulate.action").capacity == 8


def test_data_used_several_times_makes_the_learner_fire_more_often(pipeline):
    file = pipeline()
    text = file.read_text()
    for port in ("transition", "behaviour"):
        source = "sim" if port == "transition" else "act"
        text = text.replace(
            f"{source}.{port} >> ppo.{port}",
            f"graph.connect({source}.{port}, ppo.{port}, reuse=4)",
        )
    file.write_text(text)
    program = checked(file)
    assert program.stage("train").firings_per_env_step == Fraction(4, 256)


def test_default_names_are_numbered_and_given_ones_kept(pipeline):
    more = """
    second = graph.generate(Linear())
    third = graph.generate(Linear(), name="teacher")
    sim.obs >> second.obs
    ppo.weights >> second.weights
    sim.obs >> third.obs
    ppo.weights >> third.weights
    """
    names = [each.name for each in checked(pipeline(more=more)).stages]
    assert names == ["simulate", "generate", "train", "generate2", "teacher"]


def test_an_optional_input_may_stay_unconnected(pipeline):
    classes = """
    class Hinted(Linear):
        hint = ebrl.In(ebrl.Spec("float32", (3,)), optional=True)
    """
    assert checked(pipeline(generate="Hinted()", classes=classes)).name == "reach"


def test_a_program_is_plain_data_that_survives_json(pipeline):
    program = checked(pipeline(generate="Linear(chunk=4)"))
    data = msgspec.json.encode(program)
    assert msgspec.json.decode(data, type=Program) == program


def test_unbounded_actions_become_the_largest_finite_number(pipeline):
    classes = """
    from ebrl.frontend.program import ActionProgram

    class Free(Reach):
        def describe(self):
            inf = float("inf")
            bounds = {"low": (-inf,), "high": (inf,)}
            action = ActionProgram(kind="box", dtype="float32", shape=(1,), **bounds)
            return ebrl.Spec("float32", (3,)), action, None
    """
    program = checked(pipeline(simulate="Free(), envs=8", classes=classes))
    assert msgspec.json.decode(msgspec.json.encode(program), type=Program) == program


def test_the_fingerprint_of_a_stage_is_that_of_its_settings(pipeline):
    one = checked(pipeline(name="one.py")).stage("simulate").fingerprint
    other = checked(pipeline(name="other.py")).stage("simulate").fingerprint
    larger = checked(pipeline(simulate="Reach(size=4), envs=8")).stage("simulate").fingerprint
    assert one == other != larger


def test_a_stage_of_the_graph_file_is_named_by_the_file(pipeline):
    classes = """
    class Own(Linear):
        pass
    """
    program = checked(pipeline(generate="Own()", classes=classes))
    assert program.stage("generate").type == "pipeline.Own"


def test_a_graph_may_be_checked_where_it_is_declared():
    graph = ebrl.Graph("alone")
    with pytest.raises(GraphError) as caught:
        check(graph)
    assert caught.value.code == "kind-missing"
    assert caught.value.diagnostics[0].where.startswith("tests/frontend/test_check.py:")


def test_check_raises_one_error_with_all_diagnostics(pipeline):
    file = pipeline(simulate="Reach(), envs=0", generate="Linear(chunk=0)")
    with pytest.raises(GraphError) as caught:
        checked(file)
    found = [each.code for each in caught.value.diagnostics]
    assert found == ["environments-invalid", "chunk-invalid"]


@pytest.mark.parametrize("envs", ["1", "2", "4", "8", "16", "(3, 5)", "(9, 16)", "None"])
def test_a_synchronous_batch_fits_when_some_number_of_environments_divides_it(pipeline, envs: str):
    file = pipeline(simulate=f"Reach(), envs={envs}", train="Learn(), max_staleness=0")
    assert checked(file).training is not None


def test_a_batch_that_does_not_fit_is_told_in_numbers(pipeline):
    file = pipeline(simulate="Reach(), envs=6", train="Learn(batch=256), max_staleness=0")
    diagnostic = diagnose(load_graph(file))[1][0]
    assert "6 × 16 = 96, and 256 / 96 = 2.667" in diagnostic.message
    assert diagnostic.hint == "batch 192 or 288; or envs 2, 4, 8; or max_staleness 1"
