"""What the documentation says exists, exists: files, links, commands and their options."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
from pathlib import Path

import pytest

from ebrl.cli.main import COMMANDS, run

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> list[list[str]]:
    """Every `ebrl …` line of the code blocks, split into words."""
    lines = re.findall(r"^(?:\$ )?(ebrl [^\n#|]*)", page.read_text(), re.MULTILINE)
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)|(?:src|href)=\"([^\"#]+)", page.read_text())
    local = [first or second for first, second in targets if "://" not in first + second]
    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page: Path, capsys: pytest.CaptureFixture[str]):
    for words in commands(page):
        name = words[1]
        assert name in (*COMMANDS, "--version", "--help"), words
        if name in COMMANDS:
            assert run([name, "--help"]) == 0
            known = capsys.readouterr().out
            options = [word.split("=")[0] for word in words[2:] if word.startswith("-")]
            assert [option for option in options if option not in known] == [], words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_that_is_shown_runs(page: Path, tmp_path: Path):
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)):
        file = tmp_path / f"block_{number}.py"
        file.write_text(block)
        if block.startswith(("import ", "from ")):  # a whole program; other blocks are excerpts
            runpy.run_path(str(file))
        else:
            ast.parse(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_graphs_that_are_named_are_there(page: Path):
    named = set(re.findall(r"\bgraphs/\w+\.py\b", page.read_text()))
    assert {each for each in named if not (ROOT / each).exists()} == set()


def test_the_files_of_the_architecture_are_there():
    text = (ROOT / "docs/architecture.md").read_text()
    room = ""
    missing = []
    for line in text.splitlines():
        if title := re.match(r"### (frontend|planner|runtime)\b", line):
            room = title.group(1)
        elif line.startswith("## "):
            room = ""
        elif room and line.startswith("| `"):
            for name in re.findall(r"`([\w/]+(?:\.py|/))`", line.split("|")[1]):
                if not (ROOT / "ebrl" / room / name).exists():
                    missing.append(f"{room}/{name}")
    assert missing == []


@pytest.mark.parametrize(
    ("page", "graph"),
    [("README.md", "pushcube_ppo.py"), ("docs/getting-started.md", "cartpole_ppo.py")],
)
def test_the_graph_that_is_shown_is_the_one_that_runs(page: str, graph: str):
    shown = re.findall(r"```python\n(import ebrl\n.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert shown[0] in (ROOT / "graphs" / graph).read_text()
