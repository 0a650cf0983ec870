"""The `--cluster` text becomes a `Cluster`."""

from __future__ import annotations

from ebrl.planner.hardware import Cluster


def parse(text: str) -> Cluster:
    """`local`, `cpu16`, `2*(cpu64)`, `a100x8`, `4*(h100x8)`, mixes with `+`, options `/cores=16` and
    `/ram=64GB`, `ray`, or the path of a YAML file. Any fault is one PlanError with its place."""
    raise NotImplementedError
