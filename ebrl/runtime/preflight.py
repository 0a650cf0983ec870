"""Is the plan's hardware here? Asked before anything starts.

Invariant: a run never begins on a machine that lacks what its plan was made for; the refusal names
what is missing and the ways on.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

import psutil

from ebrl.errors import Diagnostic, RunError
from ebrl.planner.plan import Plan

WAYS_ON = (
    "play it here without its hardware with: ebrl execute PLAN --emulate, or plan again for this "
    "machine with: ebrl plan GRAPH --cluster local"
)
GROUP = Path("/sys/fs/cgroup")
SPARE_FILES = 64
THREE_STAGES = ("simulate", "generate", "train")


def check(plan: Plan, *, emulated: bool = False) -> None:
    """RunError with everything that is missing; an emulation needs no hardware but this machine."""
    hardware = [] if emulated else _hardware(plan)
    missing = [*_stages(plan), *hardware, *_files(plan)]
    if missing:
        raise RunError.of(missing)


def _stages(plan: Plan) -> list[Diagnostic]:
    reused = [edge for edge in plan.program.edges if edge.reuse != 1]
    if reused:
        return [
            Diagnostic(
                code="engine-reuse",
                message=f"{edge.source} >> {edge.target} is to be consumed {edge.reuse} times; the "
                "local engine trains on every step once",
                where=edge.where,
                hint="take reuse from the edge; more passes over a batch are the learner's epochs",
            )
            for edge in reused
        ]
    kinds = sorted(stage.kind for stage in plan.stages)
    if kinds == sorted(THREE_STAGES) and plan.program.environment and plan.program.training:
        return []
    return [
        Diagnostic(
            code="engine-stages",
            message="the local engine runs one simulate, one generate and one train stage; "
            f"this plan has {', '.join(kinds)}",
            where=plan.program.path,
            hint="the graph can be checked, planned and explained, but not yet executed",
        )
    ]


def _hardware(plan: Plan) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    here = os.sched_getaffinity(0)
    nodes = {replica.node for stage in plan.stages for replica in stage.replicas}
    devices = {
        (replica.node, replica.device)
        for stage in plan.stages
        for replica in stage.replicas
        if replica.device is not None
    }
    wanted = {
        core for stage in plan.stages for replica in stage.replicas for core in replica.core_set
    }
    planned_for = f"the plan is for `{plan.cluster.text}`"
    if len(nodes) > 1:
        found.append(_absent(f"{planned_for}: {len(nodes)} nodes; the local engine has this one"))
    elif wanted - here:
        cores = ", ".join(str(core) for core in sorted(wanted - here)[:8])
        found.append(
            _absent(
                f"{planned_for} and uses {len(wanted)} cores; this process may use {len(here)} "
                f"(missing: {cores}{', …' if len(wanted - here) > 8 else ''})"
            )
        )
    if devices:
        count = _gpus()
        if len(devices) > count:
            found.append(_absent(f"{planned_for} and uses {len(devices)} GPUs; {count} are here"))
    return found


def _gpus() -> int:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()


def _files(plan: Plan) -> list[Diagnostic]:
    workers = sum(len(stage.replicas) for stage in plan.stages)
    needed = 3 * workers + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed:
        return []
    if hard == resource.RLIM_INFINITY or hard >= needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        return []
    return [
        Diagnostic(
            code="file-handles",
            message=f"{workers} workers need {needed} file handles; the limit is {hard}",
            hint=f"raise it with: ulimit -Hn {needed}",
        )
    ]


def memory_free() -> float:
    """Part of the memory that this process may use, the machine's or its control group's."""
    machine = psutil.virtual_memory()
    free = float(machine.available / machine.total)
    limit, used = _group("memory.max"), _group("memory.current")
    if limit and used is not None and limit < machine.total:
        reclaimable = _group_stat("inactive_file")
        free = min(free, (limit - used + reclaimable) / limit)
    return free


def memory_available() -> int:
    """Bytes that this process may still use."""
    machine = psutil.virtual_memory()
    limit = _group("memory.max") or machine.total
    return int(min(machine.available, memory_free() * min(limit, machine.total)))


def _group(name: str) -> int | None:
    """A figure of the control group (version 2) that this process is in; None: no limit."""
    try:
        text = (GROUP / name).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _group_stat(name: str) -> int:
    try:
        lines = (GROUP / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)


def _absent(message: str) -> Diagnostic:
    return Diagnostic(code="hardware-absent", message=message, hint=WAYS_ON)


def cores_of(plan: Plan) -> frozenset[int]:
    """Cores that the plan's workers may run on: those it names, else all that are here."""
    named = {c for stage in plan.stages for replica in stage.replicas for c in replica.core_set}
    return frozenset(named) & os.sched_getaffinity(0) or frozenset(os.sched_getaffinity(0))
