"""Why a plan is as fast as it is: how full each resource is, and what one more of each would
bring.

Values come from planning again, not from dual prices: an integer program has steps, and a price
at the edge of one tells nothing of what lies beyond. Invariant: a value is never negative; more
of something can always be left unused.
"""

from __future__ import annotations

import math
from collections import defaultdict

import msgspec

from ebrl.errors import PlanError
from ebrl.planner.layout import segments_per_batch
from ebrl.planner.model.demand import demands
from ebrl.planner.plan import Plan
from ebrl.planner.proof.verify import nodes_of
from ebrl.planner.telling.whatif import Change, what_if


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a resource is in use, over all nodes of the cluster."""

    name: str
    used: float
    there: float
    unit: str

    @property
    def share(self) -> float:
        return self.used / self.there if self.there else 0.0


class Marginal(msgspec.Struct, frozen=True, kw_only=True):
    """What one more would add to throughput, in environment steps a second; where something else is
    minimised, what it would save of that."""

    name: str
    step: str
    gain: float
    relative: float


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    bottleneck: str
    why: str
    uses: tuple[Use, ...]
    marginal: tuple[Marginal, ...]


def explain(plan: Plan, *, marginals: bool = True) -> Explanation:
    """Bottleneck, utilisation of everything, and (by planning again) what more would bring."""
    return Explanation(
        bottleneck=plan.prediction.bottleneck,
        why=plan.prediction.why,
        uses=uses(plan),
        marginal=tuple(_marginals(plan)) if marginals else (),
    )


def uses(plan: Plan) -> tuple[Use, ...]:
    """Devices, SMs, busy SMs, cores, environments, staleness."""
    nodes = nodes_of(plan)
    kinds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    there: dict[str, int] = defaultdict(int)
    for node in plan.cluster.nodes:
        if node.device is not None:
            there[node.device.name] += node.count * node.devices
    seen: set[tuple[str, int]] = set()
    for stage in plan.stages:
        for replica in stage.replicas:
            device = nodes[replica.node].device
            if replica.device is None or device is None:
                continue
            kind = kinds[device.name]
            kind[0] += (replica.node, replica.device) not in seen
            seen.add((replica.node, replica.device))
            # Rollout and training in turn: a stage's own phase is not all the time.
            busy = replica.busy if plan.schedule == "asynchronous" else stage.utilisation
            kind[1] += replica.sms * busy / device.sms
    found = []
    for name, count in there.items():
        found.append(Use(name=f"{name} in use", used=kinds[name][0], there=count, unit="GPUs"))
        found.append(Use(name=f"{name} busy", used=kinds[name][1], there=count, unit="GPUs"))
    cores = math.fsum(
        stage.cores
        for stage in plan.stages
        if plan.schedule == "asynchronous" or stage.kind != "train"
    )
    every = sum(node.count * node.cores for node in plan.cluster.nodes)
    found.append(Use(name="cores", used=cores, there=every, unit="cores"))
    flight = in_flight(plan)
    found.append(
        Use(name="in flight", used=flight, there=plan.environments.count, unit="environments")
    )
    if plan.program.training is not None and plan.program.environment is not None:
        limit = max(1, plan.max_staleness) * segments_per_batch(plan.program)
        found.append(Use(name="staleness", used=flight, there=limit, unit="environments"))
    return tuple(found)


def in_flight(plan: Plan) -> float:
    """Environments inside a call of a loop stage, on average (Little's law)."""
    loop = {demand.name for demand in demands(plan.program) if demand.loop}
    return math.fsum(
        replica.busy * replica.batch
        for stage in plan.stages
        if stage.name in loop
        for replica in stage.replicas
    )


def _marginals(plan: Plan) -> list[Marginal]:
    steps: list[tuple[str, str, Change]] = []
    if any(node.device is not None for node in plan.cluster.nodes):
        steps.append(("gpu", "one more GPU", Change(gpus=1)))
        steps.append(("memory_gb", "1 GB more memory on each GPU", Change(memory_gb=1)))
    steps.append(("core", "one more core", Change(cores=1)))
    steps.append(("ram_gb", "1 GB more RAM a node", Change(ram_gb=1)))
    if plan.program.environment is not None:
        steps.append(("environment", "one more environment", Change(environments=1)))
    if plan.program.training is not None:
        eta = plan.max_staleness + 1
        steps.append(("max_staleness", f"max_staleness {eta}", Change(max_staleness=eta)))
    now = worth(plan)
    found = []
    for name, step, change in steps:
        try:
            gain = max(0.0, worth(what_if(plan, change)) - now)
        except PlanError:  # one more environment may not divide a batch any more
            continue
        found.append(Marginal(name=name, step=step, gain=gain, relative=gain / abs(now)))
    return found


def worth(plan: Plan) -> float:
    """What the plan's objective makes of it: throughput, or what is minimised, negative."""
    said = plan.prediction
    if plan.objective == "throughput" or said.objective_value is None:
        return said.throughput_env_steps_per_s
    return -said.objective_value


def worth_in_words(plan: Plan) -> str:
    """What marginal values stand beside."""
    if plan.objective == "throughput":
        return f"{worth(plan):,.1f} environment steps/s"
    return f"{-worth(plan):,.6g} {'an hour' if plan.objective == 'cost' else 'GPUs in use'}"
