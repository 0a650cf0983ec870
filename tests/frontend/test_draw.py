"""Text, dot and svg say the same of a graph, each in its own way."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from ebrl.frontend.check import check
from ebrl.frontend.draw import as_dot, as_text, number_text, spec_lines
from ebrl.frontend.drawing.svg import as_svg
from ebrl.frontend.load import load_graph
from ebrl.frontend.program import Program
from ebrl.frontend.spec import Tensor

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def program(pipeline) -> Program:
    classes = """
    class Judge(Score):
        frames = ebrl.In(ebrl.Spec("float32", (3,)), rate=16)
    """
    more = """
    judge = graph.stage(Judge(), name="judge")
    sim.obs >> judge.frames
    """
    return check(load_graph(pipeline(generate="Linear(chunk=4)", classes=classes, more=more)))


def texts(svg: str) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_svg_is_well_formed_and_names_every_stage_once(program):
    found = texts(as_svg(program))
    for stage in program.stages:
        assert found.count(stage.name) == 1


def test_the_svg_shows_rates_types_staleness_and_initial_tokens(program):
    found = texts(as_svg(program))
    assert {"1", "4", "16", "256", "newest"} <= set(found)
    assert {"float32[3]", "float32[2]", "action: float32[2]", "log_prob: float32"} <= set(found)
    assert "≤ 1 version old" in found
    assert "32" in found  # 8 environments of 4 actions each
    assert "1/4 firings per env step" in found


def test_the_svg_dashes_newest_wins_edges_only(program):
    tree = ElementTree.fromstring(as_svg(program))
    group = tree.find(f"{SVG}g")
    assert group is not None
    wires = [each for each in group.iter(f"{SVG}path") if "marker-end" in each.attrib]
    assert len(wires) == len(program.edges)
    assert sum("stroke-dasharray" in each.attrib for each in wires) == 1


def test_the_svg_escapes_what_the_user_named(pipeline):
    file = pipeline()
    file.write_text(file.read_text().replace('"reach"', '"a < b & c"'))
    assert "a < b & c" in texts(as_svg(check(load_graph(file))))


def test_drawings_are_the_same_every_time(program):
    for draw in (as_text, as_dot, as_svg):
        assert draw(program) == draw(program)


def test_the_text_lists_every_edge_under_its_source(program):
    told = as_text(program)
    for edge in program.edges:
        stage, _, port = edge.source.partition(".")
        block = re.split(r"\n\n", told[told.index(f"\n{stage}  ") :].lstrip("\n"))[0]
        assert re.search(rf"  {port} +─▶ {re.escape(edge.target)} ", block)


def test_the_dot_has_a_node_for_each_stage_and_an_arc_for_each_edge(program):
    dot = as_dot(program)
    assert len(re.findall(r"^  \"[^\"]+\" \[label=", dot, re.MULTILINE)) == len(program.stages)
    assert dot.count(" -> ") == len(program.edges)
    assert dot.count("{") == dot.count("}")


def test_a_long_spec_is_cut_and_says_how_much():
    spec = {f"t{number}": Tensor("float32", (number + 1,)) for number in range(9)}
    assert spec_lines(spec) == [
        "t0: float32[1]",
        "t1: float32[2]",
        "t2: float32[3]",
        "and 6 more tensors",
    ]


def test_large_numbers_are_grouped():
    assert number_text(4096) == "4096"
    assert number_text(1_048_576) == "1\u202f048\u202f576"
