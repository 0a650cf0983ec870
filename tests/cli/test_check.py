"""`ebrl check` as a user meets it: words, exit codes, JSON, drawings; never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ebrl.cli.main import run

WRONG = Path(__file__).parents[1] / "frontend" / "wrong"
SAMPLE = [
    "batch_not_environments",
    "dtype_float64_observation",
    "environment_fails",
    "file_exits",
    "file_syntax",
    "file_without_graph",
    "loop_without_tokens",
    "many_connections",
    "port_typo",
    "stage_ports_raise",
]
SOUND = """
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("reach")
sim = graph.simulate(Reach(), envs=8)
act = graph.generate(Linear())
ppo = graph.train(Learn())
sim.obs >> act.obs
act.action >> sim.action
sim.transition >> ppo.transition
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
print("a word of the graph's own")
"""


@pytest.fixture
def sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(WRONG), *sys.path])
    file = tmp_path / "reach.py"
    file.write_text(SOUND)
    return file


def test_a_sound_graph_is_listed_and_exits_with_0(sound, capsys):
    assert run(["check", str(sound)]) == 0
    told = capsys.readouterr()
    assert "generate.obs" in told.out
    assert told.out.rstrip().endswith("is sound")
    assert "a word of the graph's own" not in told.out


def test_the_json_of_a_sound_graph_has_the_keys_of_the_contract(sound, capsys):
    assert run(["check", str(sound), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"ok", "diagnostics", "repetition", "stages", "edges"}
    assert data["ok"] is True
    assert data["diagnostics"] == []
    assert data["repetition"] == {"simulate": 256, "generate": 256, "train": 1}
    assert [stage["name"] for stage in data["stages"]] == ["simulate", "generate", "train"]
    assert len(data["edges"]) == 5


@pytest.mark.parametrize("name", SAMPLE)
def test_a_wrong_graph_exits_with_1_and_is_told_without_a_traceback(name: str, capsys):
    assert run(["check", str(WRONG / f"{name}.py")]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{name}.py" in told.err
    assert "Traceback" not in told.err
    assert told.err.rstrip().splitlines()[-1].split()[1] in ("fault", "faults")


@pytest.mark.parametrize("name", SAMPLE)
def test_the_json_of_a_wrong_graph_has_the_same_keys(name: str, capsys):
    assert run(["check", str(WRONG / f"{name}.py"), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"ok", "diagnostics", "repetition", "stages", "edges"}
    assert data["ok"] is False
    for each in data["diagnostics"]:
        assert set(each) == {"code", "message", "where", "hint"}
        assert each["code"]
        assert f"{name}.py" in each["where"]


def test_all_faults_are_counted(capsys):
    run(["check", str(WRONG / "many_connections.py")])
    assert "5 faults in" in capsys.readouterr().err


def test_a_missing_file_is_the_users_mistake(tmp_path, capsys):
    assert run(["check", str(tmp_path / "nothing.py")]) == 1
    assert "file-missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "begins"), [("text", "reach\n"), ("dot", "digraph"), ("svg", "<svg ")]
)
def test_a_drawing_goes_to_stdout_or_to_a_file(sound, tmp_path, capsys, kind: str, begins: str):
    assert run(["check", str(sound), "--draw", kind]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(begins)
    target = tmp_path / f"graph.{kind}"
    assert run(["check", str(sound), "--draw", kind, "-o", str(target)]) == 0
    assert target.read_text().rstrip("\n") == printed.rstrip("\n")
    assert str(target) in capsys.readouterr().out


def test_a_drawing_travels_in_the_json_when_it_has_no_file(sound, capsys):
    assert run(["check", str(sound), "--draw", "svg", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drawing"].startswith("<svg ")


def test_a_wrong_graph_is_not_drawn(tmp_path, capsys):
    target = tmp_path / "graph.svg"
    wrong = WRONG / "port_typo.py"
    assert run(["check", str(wrong), "--draw", "svg", "-o", str(target)]) == 1
    assert not target.exists()


def test_a_drawing_that_cannot_be_written_is_told(sound, tmp_path, capsys):
    target = tmp_path / "no such folder" / "graph.svg"
    assert run(["check", str(sound), "--draw", "svg", "-o", str(target)]) == 1
    assert "drawing-unwritable" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--draw", "png"], ["-o", "graph.svg"], ["--no-such-option"], []]
)
def test_a_wrong_command_line_exits_with_2(sound, arguments: list[str], capsys):
    given = ["check", str(sound), *arguments] if arguments else ["check"]
    assert run(given) == 2


def test_checking_imports_neither_torch_nor_ray_nor_a_simulator(sound):
    code = (
        "import sys; from ebrl.cli.main import run; code = run(sys.argv[1:]); "
        "names = {'torch', 'ray', 'gymnasium', 'mani_skill', 'pulp', 'matplotlib'}; "
        "heavy = names & set(sys.modules); "
        "print(sorted(heavy)); sys.exit(code)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, "check", str(sound)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(WRONG)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("[]")
