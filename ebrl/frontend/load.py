"""A user's file becomes a `Graph`, with its fingerprint; or one error that shows the user's own
line.

Invariant: the file is executed as it lies there, under a module name of its own, and whatever it
does wrong (it does not parse, import, or declare exactly one graph) is one GraphError, never a
traceback.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from pathlib import Path
from types import ModuleType

from ebrl.errors import GraphError
from ebrl.frontend.failure import failure
from ebrl.frontend.graph import Graph
from ebrl.frontend.place import display, listed, near
from ebrl.frontend.stage import MODULE_PREFIX, Stage


def load_graph(path: str | Path) -> Graph:
    """Execute the file and return its graph: the only one, or the one named `graph`.

    What the file prints goes to stderr. The graph carries the absolute path and the sha256 of the
    bytes.
    """
    file = Path(os.path.abspath(path))
    source = _read(file)
    module = _execute(file, source)
    graph = _graph_of(module, display(file))
    graph.path = str(file)
    graph.sha256 = hashlib.sha256(source).hexdigest()
    return graph


def load_stage(path: str, sha256: str | None, stage: str) -> Stage:
    """The declared stage of that name, for a worker. `sha256=None` accepts a changed file."""
    graph = load_graph(path)
    if sha256 is not None and graph.sha256 != sha256:
        raise GraphError(
            "file-changed",
            f"the file has changed: its sha256 is {graph.sha256[:12]}…, {sha256[:12]}… was planned",
            where=display(path),
            hint="plan again, or allow the change with --allow-changed-graph",
        )
    for each in graph.declarations:
        if each.name == stage and each.stage is not None:
            return each.stage
    names = [each.name for each in graph.declarations]
    hint = near(stage, names)
    raise GraphError(
        "stage-unknown", f"no stage is named {stage!r}", where=display(path), hint=hint
    )


def _read(file: Path) -> bytes:
    place = display(file)
    hint = "give the path of a Python file that declares an ebrl.Graph"
    if file.is_dir():
        raise GraphError("file-not-python", "this is a folder", where=place, hint=hint)
    try:
        source = file.read_bytes()
    except FileNotFoundError:
        beside = [each.name for each in file.parent.glob("*.py")] if file.parent.is_dir() else []
        close = near(file.name, beside) if beside else ""
        hint = close if close.startswith("did you mean") else hint
        raise GraphError("file-missing", "there is no such file", where=place, hint=hint) from None
    except OSError as error:
        text = f"cannot read the file: {error.strerror}"
        raise GraphError("file-unreadable", text, where=place) from None
    if file.suffix != ".py":
        text = f"a graph is a .py file, this is {file.suffix or 'without suffix'}"
        raise GraphError("file-not-python", text, where=place, hint=hint)
    if b"\0" in source:
        raise GraphError("file-not-python", "the file holds binary data", where=place, hint=hint)
    return source


def _execute(file: Path, source: bytes) -> ModuleType:
    stem = re.sub(r"\W", "_", file.stem)
    name = f"{MODULE_PREFIX}{stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    module = ModuleType(name)
    module.__file__ = str(file)
    folder = str(file.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # and stays: a stage may import what lies beside it, later
    sys.modules[name] = module
    try:
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(source, str(file), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise failure(error, folder=file.parent, fallback=display(file)) from None
    return module


def _graph_of(module: ModuleType, place: str) -> Graph:
    named = {name: value for name, value in vars(module).items() if isinstance(value, Graph)}
    if len({id(each) for each in named.values()}) == 1:
        return next(iter(named.values()))
    if "graph" in named:
        return named["graph"]
    if named:
        told = listed(f"{name} ({each.where})" for name, each in named.items())
        text = f"the file declares {len(named)} graphs: {told}"
        hint = "call the one that is meant `graph`, or use one file a graph"
        raise GraphError("graph-several", text, where=place, hint=hint)
    hint = 'begin with: graph = ebrl.Graph("name")'
    if isinstance(vars(module).get("graph"), type):
        hint = '`graph` is a class; make one: ebrl.Graph("name")'
    raise GraphError("graph-missing", "the file declares no graph", where=place, hint=hint)
