"""EBRL compiles a reinforcement-learning pipeline for robots: declare it, plan it, execute it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebrl.errors import EbrlError, GraphError, InfeasibleError, PlanError, RunError
from ebrl.frontend.graph import Graph
from ebrl.frontend.spec import Spec, Tensor
from ebrl.frontend.stage import In, Out, Stage

if TYPE_CHECKING:
    from ebrl.stages.base import Learner, Policy, Simulator

__version__ = "0.1.0"
__all__ = [
    "EbrlError",
    "Graph",
    "GraphError",
    "In",
    "InfeasibleError",
    "Learner",
    "Out",
    "PlanError",
    "Policy",
    "RunError",
    "Simulator",
    "Spec",
    "Stage",
    "Tensor",
]


def __getattr__(name: str) -> object:
    """`Simulator`, `Policy` and `Learner` come with the stages, on first use."""
    if name in ("Simulator", "Policy", "Learner"):
        from ebrl.stages import base

        return getattr(base, name)
    raise AttributeError(f"module 'ebrl' has no attribute {name!r}")
