"""Wrong graphs: each file says on its lines which diagnostics belong there, and gets just those."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ebrl.errors import Diagnostic, GraphError
from ebrl.frontend.check import diagnose
from ebrl.frontend.load import load_graph

FOLDER = Path(__file__).parent / "wrong"
FILES = sorted(each for each in FOLDER.glob("*.py") if each.name != "toy.py")


def announced(file: Path) -> Counter[tuple[str, int | None]]:
    """Code and line, from `# wrong: code, code` (this line) and `# wrong file: code` (no line)."""
    found: Counter[tuple[str, int | None]] = Counter()
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if match := re.search(r"# wrong( file)?: (.*)$", line):
            place = None if match[1] else number
            found.update((code.strip(), place) for code in match[2].split(","))
    return found


def found(file: Path) -> tuple[Diagnostic, ...]:
    try:
        program, diagnostics = diagnose(load_graph(file))
    except GraphError as error:
        return error.diagnostics
    assert program is None
    return diagnostics


def line_of(diagnostic: Diagnostic, file: Path) -> int | None:
    name, _, line = diagnostic.where.partition(".py")
    assert Path(f"{name}.py").resolve() == file, diagnostic
    return int(line[1:]) if line else None


def test_there_are_a_hundred_of_them_and_more():
    assert len(FILES) >= 100


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_wrong_graph_gets_its_diagnostics_at_their_lines_and_no_others(file: Path):
    diagnostics = found(file)
    assert Counter((each.code, line_of(each, file)) for each in diagnostics) == announced(file)
    for each in diagnostics:
        assert each.message
        assert "Traceback" not in each.message
        assert "ebrl/frontend" not in each.message.replace("tests/frontend", "")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_wrong_graph_says_in_its_first_line_what_is_wrong(file: Path):
    first = file.read_text().splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")


def test_without_its_fault_the_graph_is_sound(tmp_path: Path):
    """What all of them have in common is right: each diagnostic is due to its own fault."""
    sound = (FOLDER / "edge_written_twice.py").read_text().splitlines()
    (tmp_path / "toy.py").write_text((FOLDER / "toy.py").read_text())
    file = tmp_path / "sound.py"
    file.write_text("\n".join(line for line in sound if "# wrong" not in line))
    program, diagnostics = diagnose(load_graph(file))
    assert diagnostics == ()
    assert program is not None
