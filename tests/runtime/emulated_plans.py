"""Plans for hardware that is not here."""

from __future__ import annotations

import functools
from pathlib import Path

from benchmarks import eight as declared
from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.planner.cluster import parse
from ebrl.planner.compile import compile
from ebrl.planner.model.request import CompileOptions
from ebrl.planner.plan import Plan
from ebrl.planner.shipped import shipped

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def workload(name: str, cluster: str = "a100x8") -> Plan:
    """The plan of one of the example graphs."""
    program = check(load_graph(ROOT / f"graphs/{name}.py"))
    options = CompileOptions(alternatives=False)
    return compile(program, parse(cluster), shipped(program), options=options)


@functools.cache
def eight() -> Plan:
    """The plan of `benchmarks/graphs/eight.py`, by declared times."""
    return declared.plan()
