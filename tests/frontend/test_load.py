"""A file becomes a graph, or one error that shows the user's own line."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from ebrl.errors import GraphError
from ebrl.frontend.load import load_graph, load_stage


def fault(path: Path):
    with pytest.raises(GraphError) as caught:
        load_graph(path)
    assert len(caught.value.diagnostics) == 1
    return caught.value.diagnostics[0]


def test_a_graph_carries_its_path_and_the_digest_of_its_bytes(pipeline):
    file = pipeline()
    graph = load_graph(file)
    assert graph.path == str(file)
    assert graph.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_relative_path_is_made_absolute(pipeline, monkeypatch):
    file = pipeline()
    monkeypatch.chdir(file.parent)
    assert load_graph(file.name).path == str(file)


def test_a_graph_named_graph_wins_over_others(tmp_path):
    file = tmp_path / "two.py"
    file.write_text('import ebrl\nold = ebrl.Graph("old")\ngraph = ebrl.Graph("new")\n')
    assert load_graph(file).name == "new"


def test_one_graph_under_two_names_is_one(tmp_path):
    file = tmp_path / "alias.py"
    file.write_text('import ebrl\npipeline = ebrl.Graph("one")\nsame = pipeline\n')
    assert load_graph(file).name == "one"


def test_what_lies_beside_the_file_can_be_imported(tmp_path):
    (tmp_path / "beside_it.py").write_text("NAME = 'from beside'\n")
    file = tmp_path / "main.py"
    file.write_text("import ebrl\nfrom beside_it import NAME\ngraph = ebrl.Graph(NAME)\n")
    assert load_graph(file).name == "from beside"


def test_what_the_file_prints_does_not_go_to_stdout(tmp_path, capsys):
    file = tmp_path / "chatty.py"
    file.write_text('import ebrl\nprint("hello")\ngraph = ebrl.Graph("chatty")\n')
    load_graph(file)
    assert capsys.readouterr() == ("", "hello\n")


def test_two_files_of_one_name_are_two_modules(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        text = f'import ebrl\ngraph = ebrl.Graph("{folder}")\n'
        (tmp_path / folder / "same.py").write_text(text)
    before = set(sys.modules)
    graphs = [load_graph(tmp_path / folder / "same.py") for folder in ("a", "b")]
    assert [graph.name for graph in graphs] == ["a", "b"]
    assert len(set(sys.modules) - before) == 2


def test_a_class_of_the_file_can_be_found_again_by_its_module(pipeline):
    graph = load_graph(pipeline(generate="Own()", classes="\nclass Own(Linear):\n    pass\n"))
    stage = graph.declarations[1].stage
    assert vars(sys.modules[type(stage).__module__])["Own"] is type(stage)


def test_a_file_that_fails_leaves_no_module_behind(tmp_path):
    file = tmp_path / "fails.py"
    file.write_text("1 / 0\n")
    before = set(sys.modules)
    fault(file)
    assert set(sys.modules) == before


def test_a_worker_gets_its_stage(pipeline):
    graph = load_graph(pipeline(generate="Linear(chunk=2)"))
    stage = load_stage(graph.path, graph.sha256, "generate")
    assert stage.settings() == {"chunk": 2}


def test_a_file_that_changed_since_is_refused_unless_any_will_do(pipeline):
    file = pipeline()
    before = load_graph(file).sha256
    file.write_text(file.read_text() + "# changed\n")
    with pytest.raises(GraphError) as caught:
        load_stage(str(file), before, "train")
    assert caught.value.code == "file-changed"
    assert load_stage(str(file), None, "train").kind == "train"


def test_an_unknown_stage_is_told_with_the_nearest_name(pipeline):
    with pytest.raises(GraphError) as caught:
        load_stage(str(pipeline()), None, "generat")
    assert caught.value.code == "stage-unknown"
    assert "'generate'" in caught.value.diagnostics[0].hint


def test_a_missing_file_is_told_with_the_nearest_name(pipeline):
    file = pipeline(name="pushcube_ppo.py")
    told = fault(file.with_name("puschube_ppo.py"))
    assert told.code == "file-missing"
    assert "'pushcube_ppo.py'" in told.hint


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("graph.txt", b"import ebrl\n", "file-not-python"),
        ("graph", b"import ebrl\n", "file-not-python"),
        ("binary.py", b"\x7fELF\x00\x01", "file-not-python"),
        ("latin.py", "# \xe4\xf6\nx = '\xfc'\n".encode("latin-1"), "file-syntax"),
        ("empty.py", b"", "graph-missing"),
        ("deep.py", b"def f():\n    return f()\nf()\n", "file-error"),
        ("nested.py", b"(" * 3000, "file-syntax"),
        ("exit.py", b"raise SystemExit\n", "file-exits"),
        (
            "note.py",
            b"class E(Exception):\n    pass\nraise E('line one\\nline two')\n",
            "file-error",
        ),
    ],
)
def test_a_file_that_is_no_graph_is_one_error(tmp_path, name: str, content: bytes, code: str):
    file = tmp_path / name
    file.write_bytes(content)
    told = fault(file)
    assert told.code == code
    assert told.where.startswith(str(file))


def test_a_folder_is_no_graph(tmp_path):
    assert fault(tmp_path).code == "file-not-python"


def test_a_file_that_cannot_be_read_is_told_with_the_reason(tmp_path):
    file = tmp_path / "loop.py"
    file.symlink_to(file)
    told = fault(file)
    assert told.code == "file-unreadable"
    assert "symbolic links" in told.message


def test_a_fault_in_a_module_beside_points_into_that_module(tmp_path):
    (tmp_path / "broken_beside.py").write_text("x = 1\ny = x + 'one'\n")
    file = tmp_path / "main.py"
    file.write_text("import ebrl\nimport broken_beside\n")
    told = fault(file)
    assert told.where == f"{tmp_path}/broken_beside.py:2"
    assert f"{file}:2 in <module>" in told.message


def test_only_the_users_frames_are_shown(tmp_path):
    file = tmp_path / "main.py"
    file.write_text("import json\nimport ebrl\njson.loads('{')\n")
    told = fault(file)
    assert told.where == f"{file}:3"
    assert "json/decoder.py" not in told.message


def test_an_interrupt_is_not_taken_for_a_fault(tmp_path):
    file = tmp_path / "main.py"
    file.write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_graph(file)
