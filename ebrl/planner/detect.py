"""This machine as a cluster of one node."""

from __future__ import annotations

from ebrl.planner.hardware import Cluster


def local() -> Cluster:
    """Cores by affinity and quota, RAM by cgroup limit, GPUs through NVML, NUMA from /sys."""
    raise NotImplementedError
