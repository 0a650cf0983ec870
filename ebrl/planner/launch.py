"""Launch scripts, rendered from a plan."""

from __future__ import annotations

from typing import Literal

from ebrl.planner.plan import Plan

Target = Literal["slurm", "kubernetes", "mps"]


def render(plan: Plan, target: Target, *, plan_name: str = "plan.json") -> dict[str, str]:
    """File name → text. Raises PlanError where the plan has nothing for the target to do."""
    raise NotImplementedError
