"""Who may import whom: the rooms of docs/architecture.md, held by reading every import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "ebrl").rglob("*.py"))


class Import(NamedTuple):
    """One imported module; `lazy` when it is imported in a function, or for a type checker only."""

    name: str
    line: int
    lazy: bool


class Rule(NamedTuple):
    """What a room may import: rooms or modules of ours, and packages of others.

    `others=None` allows any package. `never` is forbidden inside functions too.
    """

    ours: tuple[str, ...]
    others: frozenset[str] | None
    never: frozenset[str] = frozenset()


HEAVY = frozenset({"torch", "ray", "gymnasium", "mani_skill", "sapien"})
RULES = {
    "ebrl.errors": Rule((), frozenset({"msgspec"}), HEAVY),
    "ebrl.frontend": Rule(
        ("ebrl.errors", "ebrl.frontend"), frozenset({"numpy", "networkx", "msgspec"}), HEAVY
    ),
    "ebrl.planner": Rule(
        ("ebrl.errors", "ebrl.frontend", "ebrl.planner", "ebrl.trace", "ebrl.__version__"),
        frozenset(
            {
                "numpy",
                "networkx",
                "msgspec",
                "pulp",
                "highspy",
                "jinja2",
                "matplotlib",
                "psutil",
                "pynvml",
                "yaml",
            }
        ),
        HEAVY,
    ),
    "ebrl.runtime": Rule(
        (
            "ebrl.errors",
            "ebrl.runtime",
            "ebrl.stages.protocols",
            "ebrl.trace",
            "ebrl.planner.compile",
            "ebrl.planner.detect",
            "ebrl.planner.foresight.conditions",
            "ebrl.planner.foresight.script",
            "ebrl.planner.foresight.simulate",
            "ebrl.planner.hardware",
            "ebrl.planner.layout",
            "ebrl.planner.model.request",
            "ebrl.planner.plan",
            "ebrl.planner.profile",
            "ebrl.__version__",
        ),
        None,
    ),
    "ebrl.stages": Rule(("ebrl.errors", "ebrl.frontend", "ebrl.stages"), None, frozenset({"ray"})),
    "ebrl.cli": Rule(("ebrl",), None),
}
# Module, package: allowed inside a function of that module all the same, because…
EXCEPTIONS = {
    ("ebrl.planner.cluster_ray", "ray"),  # `--cluster ray` asks a running Ray what it has
}


def imports(tree: ast.Module, module: str) -> Iterator[Import]:
    """Every import of a module, relative ones resolved, `from package import name` with both."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inner = (
                lazy
                or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING")
            )
            if isinstance(child, ast.Import):
                yield from (Import(each.name, child.lineno, lazy) for each in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    package = module.split(".")[: -child.level]
                    base = ".".join([*package, *filter(None, [child.module])])
                # `from ebrl.planner import plan` imports ebrl.planner.plan.
                yield from (
                    Import(
                        f"{base}.{each.name}" if base.startswith("ebrl") else base,
                        child.lineno,
                        lazy,
                    )
                    for each in child.names
                )
            else:
                yield from visit(child, inner)

    yield from visit(tree, False)


def breaches(source: str, module: str) -> list[str]:
    """Imports of `source`, as `module`, that its room does not allow."""
    room = next((name for name in RULES if module == name or module.startswith(f"{name}.")), None)
    if room is None:  # ebrl, ebrl.__main__: the door, held by the start-up tests
        return []
    rule = RULES[room]
    found = []
    for each in imports(ast.parse(source), module):
        top = each.name.split(".")[0]
        if top in sys.stdlib_module_names:
            continue
        if top == "ebrl":
            allowed = any(each.name == our or each.name.startswith(f"{our}.") for our in rule.ours)
        else:
            allowed = top not in rule.never and (rule.others is None or top in rule.others)
            allowed = allowed or (each.lazy and (module, top) in EXCEPTIONS)
        if not allowed:
            found.append(f"line {each.line}: {room} may not import {each.name}")
    return found


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_a_module_imports_only_what_its_room_may(file: Path):
    assert breaches(file.read_text(), name_of(file)) == []


@pytest.mark.parametrize("file", sorted((ROOT / "ebrl/cli").glob("*.py")), ids=name_of)
def test_a_command_imports_what_is_heavy_only_when_it_runs(file: Path):
    light = {"typer", "ebrl", "ebrl.__version__"}
    eager = [
        each.name
        for each in imports(ast.parse(file.read_text()), name_of(file))
        if not each.lazy
        and each.name.split(".")[0] not in sys.stdlib_module_names
        and each.name not in light
        and not each.name.startswith(("ebrl.errors", "ebrl.cli"))
    ]
    assert eager == []


@pytest.mark.parametrize(
    ("module", "source", "culprit"),
    [
        ("ebrl.planner.model.milp", "def solve():\n    import torch", "torch"),
        ("ebrl.frontend.graph", "from ebrl.planner import plan", "ebrl.planner.plan"),
        ("ebrl.frontend.graph", "from ..planner.plan import Plan", "ebrl.planner.plan.Plan"),
        ("ebrl.frontend.graph", "import rich", "rich"),
        ("ebrl.runtime.run", "from ebrl.frontend.program import Program", "ebrl.frontend.program"),
        ("ebrl.runtime.run", "from ebrl.planner.model import milp", "ebrl.planner.model.milp"),
        ("ebrl.stages.envs.adapter", "import ebrl.runtime.slab", "ebrl.runtime.slab"),
        ("ebrl.errors", "from typing import X\nimport numpy.typing", "numpy.typing"),
    ],
)
def test_an_import_across_rooms_is_found(module: str, source: str, culprit: str):
    (breach,) = breaches(source, module)
    assert culprit in breach
