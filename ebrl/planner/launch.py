"""Launch scripts from a plan: Slurm, a Kubernetes RayJob, and MPS control for each node.

Invariant: every number in a script is the plan's. What the plan cannot know (an image, a limit of
time, how a site calls its devices) has a default that the script shows and its reader may change.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jinja2

from ebrl.errors import PlanError
from ebrl.planner.hardware import DeviceKind, NodeClass, mps_percent
from ebrl.planner.plan import Plan, Replica, encode

Target = Literal["slurm", "kubernetes", "mps"]
SHM_SLACK_BYTES = (
    256 * 1024**2
)  # assumed: what torch and the renderers put into /dev/shm beside ours
HEAD_CORES = 2  # of the pod that only coordinates
HEAD_RAM_GIB = 8
ENTRY = (  # of a RayJob
    "[[ $(ebrl execute --help) == *--engine* ]] || "
    "{{ echo this image has an ebrl without an engine on Ray >&2; exit 1; }}; "
    "exec ebrl execute /plan/plan.json --engine ray --logdir /plan/runs/{name}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes of one class that the plan uses."""

    name: str
    nodes: int
    cores: int
    ram_mib: int
    devices: int
    device: str
    typed: bool  # must the kind of device be asked for by name?


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One process under MPS and the share of its device that it may use."""

    stage: str
    index: int
    device: int
    sms: int
    percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a plan cannot know."""

    image: str = "ebrl:latest"
    time: str = "24:00:00"


def render(plan: Plan, target: Target, *, options: Options | None = None) -> dict[str, str]:
    """File name → text. Scripts read the plan as `plan.json` in their own folder.

    Raises PlanError `launch-nothing` where the plan has nothing for the target to do.
    """
    options = options or Options()
    if target == "mps":
        return _mps(plan)
    name = {"slurm": "job.sbatch", "kubernetes": "rayjob.yaml"}[target]
    text = _template(f"{name}.j2").render(
        plan=plan,
        name=_label(plan.program.name),
        digest=plan.digest()[:12],
        groups=groups(plan),
        options=options,
        shm_mib=math.ceil((plan.buffers.slab_bytes + SHM_SLACK_BYTES) / 1024**2),
        head_cores=HEAD_CORES,
        head_ram_gib=HEAD_RAM_GIB,
        entry=ENTRY.format(name=_label(plan.program.name)),
    )
    return {name: text}


def needs_ray(plan: Plan, target: Target) -> bool:
    """Does what is rendered start Ray, whose engine has to be there to run the plan?"""
    return target == "kubernetes" or (
        target == "slurm" and sum(group.nodes for group in groups(plan)) > 1
    )


def groups(plan: Plan) -> tuple[Group, ...]:
    """The classes of nodes that carry a replica, in the cluster's order."""
    used = {replica.node for stage in plan.stages for replica in stage.replicas}
    kinds = {node.device.name for node in plan.cluster.nodes if node.device is not None}
    found = []
    for each in plan.cluster.nodes:
        nodes = len({name for name in used if _is_of(name, each, plan)})
        if nodes:
            found.append(
                Group(
                    name=each.name,
                    nodes=nodes,
                    cores=each.cores,
                    ram_mib=each.ram_bytes // 1024**2,
                    devices=each.devices,
                    device=each.device.name if each.device is not None else "",
                    typed=len(kinds) > 1,
                )
            )
    return tuple(found)


def clients(plan: Plan) -> dict[str, tuple[Client, ...]]:
    """For each node with a device that processes share: its clients, by device and first SM."""
    found: dict[str, list[Client]] = {}
    placed: dict[tuple[str, int], list[tuple[str, Replica]]] = {}
    for stage in plan.stages:
        for replica in stage.replicas:
            if replica.device is not None:
                placed.setdefault((replica.node, replica.device), []).append((stage.name, replica))
    for (node, device), here in sorted(placed.items()):
        kind = _device(plan, node)
        if len(here) < 2:
            continue  # alone on its device: nothing to share out
        for stage_name, replica in sorted(here, key=lambda each: (each[1].sm_start, each[0])):
            found.setdefault(node, []).append(
                Client(
                    stage=stage_name,
                    index=replica.index,
                    device=device,
                    sms=replica.sms,
                    percent=mps_percent(replica.sms, kind.sms),
                )
            )
    return {node: tuple(each) for node, each in sorted(found.items())}


def _mps(plan: Plan) -> dict[str, str]:
    shared = clients(plan)
    if not shared:
        raise PlanError(
            "launch-nothing",
            "no device of this plan is shared by several processes, so MPS has nothing to do",
            where="--target mps",
            hint="launch it without MPS",
        )
    template = _template("mps.sh.j2")
    return {
        f"mps-{node}.sh": template.render(
            node=node,
            digest=plan.digest()[:12],
            clients=each,
            devices=sorted({client.device for client in each}),
        )
        for node, each in shared.items()
    }


def _is_of(name: str, node: NodeClass, plan: Plan) -> bool:
    if plan.cluster.local:
        return True
    return re.fullmatch(rf"{re.escape(node.name)}-\d+", name) is not None


def _device(plan: Plan, name: str) -> DeviceKind:
    for node in plan.cluster.nodes:
        if _is_of(name, node, plan) and node.device is not None:
            return node.device
    raise PlanError(
        "plan-malformed", f"node {name!r} has replicas on devices and no device", where="plan"
    )


def _label(text: str) -> str:
    """A name that Kubernetes and Slurm take: lower case, digits, hyphens, at most 40 long."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "ebrl"


def _template(name: str) -> jinja2.Template:
    # Shell and YAML, not HTML: values are quoted by the filters below, where they are used.
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ebrl.planner", "templates"),
        undefined=jinja2.StrictUndefined,
        comment_start_string="<#",  # "{#" is bash's
        comment_end_string="#>",
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shell"] = shlex.quote
    environment.filters["yaml"] = json.dumps  # a JSON string is a YAML string
    return environment.get_template(name)


def write(
    plan: Plan, target: Target, folder: Path, *, options: Options | None = None
) -> tuple[Path, ...]:
    """Write the scripts into the folder, the plan beside them, and return the files."""
    texts = render(plan, target, options=options)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / "plan.json", *(folder / name for name in texts)]
        written[0].write_bytes(encode(plan))
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
            if not name.endswith(".yaml"):
                (folder / name).chmod(0o755)
    except OSError as error:
        raise PlanError(
            "launch-unwritable", f"cannot write the scripts: {error.strerror}", where=str(folder)
        ) from error
    return tuple(written)
