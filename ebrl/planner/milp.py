"""The integer program: how many devices follow each pattern, how many replicas run on cores.

Columns: n (devices a pattern), m (replicas of an option on cores), y (how many replicas' worth of time
an option is busy; y ≤ m, y ≤ Σ n/slowdown), R (throughput), rollout rates by class, Φ (learner
capacity), E (environments by class). Rows, by class: devices, cores (a core-second is spent once),
RAM, the loop's stages each keep pace, environments in flight (Little); over classes: other stages keep
pace, ranks, staleness, and the tangents that bound R. Invariant: a row holds for every real plan, so
the bound of a relaxation is a bound for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ebrl.planner.learning import Cut
from ebrl.planner.options import Option
from ebrl.planner.request import pinned
from ebrl.planner.solver import Model
from ebrl.planner.space import ClassSpace, Space

Key = tuple[str, int, int]


@dataclass(slots=True)
class Program:
    """A model with the numbers of its columns and rows, by meaning."""

    model: Model = field(default_factory=Model)
    throughput: int = -1
    learner: int = -1
    rollout: list[int] = field(default_factory=list)  # by class
    environments: list[int] = field(default_factory=list)  # by class
    devices: dict[tuple[int, int], int] = field(default_factory=dict)  # (class, pattern) → n
    replicas: dict[tuple[int, int], int] = field(default_factory=dict)  # (class, core option) → m
    busy_cores: dict[tuple[int, int], int] = field(default_factory=dict)  # (class, core option) → y
    busy_device: dict[tuple[int, int], int] = field(default_factory=dict)  # (class, device option)
    busy_shared: dict[tuple[int, int, int], int] = field(
        default_factory=dict
    )  # (class, pattern, option)
    rows: dict[Key, int] = field(default_factory=dict)
    scale: float = 1.0  # R is counted in this many environment steps a second


def build(
    space: Space, chosen: Sequence[Sequence[int]], cuts: Sequence[Cut], scale: float
) -> Program:
    """The model over the chosen patterns of each class. `scale` keeps the numbers near one."""
    made = Program(scale=scale)
    model = made.model
    maximise = space.objective == "throughput"
    made.throughput = model.column("throughput", objective=1.0 if maximise else 0.0)
    if space.at_least is not None:
        model.low[made.throughput] = space.at_least / scale
    if space.mode is not None:
        made.learner = model.column("learner capacity")
    for k, _ in enumerate(space.classes):
        made.rollout.append(model.column(f"rollout {k}"))
        made.environments.append(
            model.column(f"environments {k}", high=space.environments[1], integer=True)
        )
    for k, each in enumerate(space.classes):
        _columns(made, space, k, each, chosen[k])
        _class_rows(made, space, k, each, chosen[k])
    _shared_rows(made, space, chosen)
    for cut in cuts:
        add_cut(made, cut)
    return made


def add_cut(made: Program, cut: Cut) -> None:
    """One more upper bound of throughput."""
    terms = {made.throughput: 1.0}
    for column in made.rollout:
        terms[column] = -cut.rollout
    if made.learner >= 0:
        terms[made.learner] = -cut.learner
    made.model.row("tangent", terms, high=cut.constant / made.scale)


def _columns(made: Program, space: Space, k: int, each: ClassSpace, chosen: Sequence[int]) -> None:
    model = made.model
    node = each.node
    for j, option in enumerate(each.on_cores):
        most = _most(space, option, node.count * node.cores)
        made.replicas[k, j] = model.column(f"m {option.stage}", high=most, integer=True)
        made.busy_cores[k, j] = model.column(f"busy {option.stage}", high=most)
    limit = node.count * node.devices
    for i in chosen:
        made.devices[k, i] = model.column(f"n {i}", high=limit, integer=True)
        members = [int(o) for o in each.patterns.members[i] if o >= 0]
        for o in members:
            if each.patterns.shared[i] and not space.apart(each.on_device[o]):
                made.busy_shared[k, i, o] = model.column("busy shared", high=limit)
            elif (k, o) not in made.busy_device:
                made.busy_device[k, o] = model.column("busy", high=limit)


def _most(space: Space, option: Option, cores: int) -> int:
    if space.demand(option.stage).learns and space.mode is not None:
        return space.mode.ranks if space.mode.hardware == "cpu" else 0
    return max(1, min(2 * cores, space.environments[1]))


def _class_rows(
    made: Program, space: Space, k: int, each: ClassSpace, chosen: Sequence[int]
) -> None:
    model, node, patterns = made.model, each.node, each.patterns
    limit = node.count * node.devices
    if chosen:
        terms = {made.devices[k, i]: 1.0 for i in chosen}
        made.rows["devices", k, 0] = model.row(f"devices of {node.name}", terms, high=limit)
    supply: dict[int, dict[int, float]] = {}
    for i in chosen:
        turns: dict[int, float] = {made.devices[k, i]: -1.0}
        for o in (int(o) for o in patterns.members[i] if o >= 0):
            if (k, i, o) in made.busy_shared:
                turns[made.busy_shared[k, i, o]] = 1.0
            else:
                slow = 1.0 if space.apart(each.on_device[o]) else float(patterns.slowdown[i])
                supply.setdefault(o, {})[made.devices[k, i]] = -1.0 / slow
        if len(turns) > 1:
            model.row("turns", turns, high=0.0)
    for o, terms in supply.items():
        made.rows["busy", k, o] = model.row(
            "busy", {made.busy_device[k, o]: 1.0, **terms}, high=0.0
        )
    for j, option in enumerate(each.on_cores):
        model.row("busy", {made.busy_cores[k, j]: 1.0, made.replicas[k, j]: -1.0}, high=0.0)
    _core_rows(made, space, k, each, chosen)
    _loop_rows(made, space, k, each, chosen)


def _core_rows(
    made: Program, space: Space, k: int, each: ClassSpace, chosen: Sequence[int]
) -> None:
    """Cores by phase, and RAM."""
    model, node = made.model, each.node
    cores: dict[bool, dict[int, float]] = {False: {}, True: {}}
    ram: dict[int, float] = {}
    for j, option in enumerate(each.on_cores):
        cores[space.apart(option)][made.busy_cores[k, j]] = option.cores
        ram[made.replicas[k, j]] = option.ram_bytes / 1e9
        if option.env_ram_bytes:
            ram[made.environments[k]] = option.env_ram_bytes / 1e9
    for i in chosen:
        column = made.devices[k, i]
        for o in (int(o) for o in each.patterns.members[i] if o >= 0):
            option = each.on_device[o]
            spent = cores[space.apart(option)]
            if (k, i, o) in made.busy_shared:
                spent[made.busy_shared[k, i, o]] = option.cores
            else:
                spent[column] = spent.get(column, 0.0) + option.cores
            ram[column] = ram.get(column, 0.0) + option.ram_bytes / 1e9
    for apart, terms in cores.items():
        if terms:
            made.rows["cores", k, int(apart)] = model.row(
                f"cores of {node.name}", terms, high=node.count * node.cores
            )
    if ram:
        made.rows["ram", k, 0] = model.row(
            f"RAM of {node.name}", ram, high=node.count * node.ram_bytes / 1e9
        )


def busy_terms(made: Program, k: int, each: ClassSpace, stage: str) -> list[tuple[int, Option]]:
    """Columns that say how busy the stage is in the class, each with its option."""
    found = [(c, each.on_cores[j]) for (kk, j), c in made.busy_cores.items() if kk == k]
    found += [(c, each.on_device[o]) for (kk, o), c in made.busy_device.items() if kk == k]
    found += [(c, each.on_device[o]) for (kk, _, o), c in made.busy_shared.items() if kk == k]
    return [(column, option) for column, option in found if option.stage == stage]


def _loop_rows(
    made: Program, space: Space, k: int, each: ClassSpace, chosen: Sequence[int]
) -> None:
    """Every stage of the loop keeps pace, with environments enough on their way."""
    model, envs = made.model, made.environments[k]
    flight: dict[int, float] = {envs: -1.0}
    for demand in space.demands:
        if not demand.loop:
            continue
        pace = {made.rollout[k]: -demand.items * made.scale}
        for column, option in busy_terms(made, k, each, demand.name):
            pace[column] = option.rate
            flight[column] = option.batch
        made.rows["pace", k, space.demands.index(demand)] = model.row(
            f"{demand.name} keeps pace", pace, low=0.0
        )
        held: dict[int, float] = {envs: -1.0}
        room: dict[int, float] = {envs: 1.0}
        free = False
        for j, option in enumerate(each.on_cores):
            if option.stage == demand.name:
                size = 1 if demand.holds else option.batch * space.groups
                held[made.replicas[k, j]] = size
                room[made.replicas[k, j]] = -float(space.environments[1])
                free = True
        for i in chosen:
            for o in (int(o) for o in each.patterns.members[i] if o >= 0):
                option = each.on_device[o]
                if option.stage == demand.name:
                    held[made.devices[k, i]] = option.resident or option.batch * space.groups
                    room[made.devices[k, i]] = -float(option.resident)
        made.rows["held", k, space.demands.index(demand)] = model.row(
            f"environments for {demand.name}", held, high=0.0
        )
        if demand.holds and (free or len(room) > 1):
            made.rows["room", k, space.demands.index(demand)] = model.row(
                f"room for environments in {demand.name}", room, high=0.0
            )
    made.rows["flight", k, 0] = model.row("environments in flight", flight, high=0.0)


def _shared_rows(made: Program, space: Space, chosen: Sequence[Sequence[int]]) -> None:
    """Rows over all classes."""
    model = made.model
    flight: dict[int, float] = {}
    for s, demand in enumerate(space.demands):
        columns = [
            pair for k, each in enumerate(space.classes)
            for pair in busy_terms(made, k, each, demand.name)
        ]  # fmt: skip
        if demand.loop:
            flight.update((column, option.batch) for column, option in columns)
        elif demand.learns and space.mode is not None:
            terms = {column: option.rate for column, option in columns}
            terms[made.learner] = -made.scale * demand.items
            made.rows["learner", 0, s] = model.row("learner capacity", terms, low=0.0)
            ranks = _count(made, space, chosen, demand.name)
            made.rows["ranks", 0, s] = model.row("ranks", ranks, high=space.mode.ranks)
            if space.mode.shards > 1:
                made.rows["shards", 0, s] = model.row("shards", ranks, low=space.mode.shards)
        else:
            terms = {column: option.rate for column, option in columns}
            for column in made.rollout:
                terms[column] = -demand.items * made.scale
            made.rows["pace", 0, s] = model.row(f"{demand.name} keeps pace", terms, low=0.0)
        replicas = pinned(space.pins, demand.name, "replicas")
        if replicas is not None:
            count = _count(made, space, chosen, demand.name)
            made.rows["pin", 0, s] = model.row(
                f"pin {demand.name}.replicas", count, low=replicas, high=replicas
            )
    everywhere = dict.fromkeys(made.environments, 1.0)
    made.rows["environments", 0, 0] = model.row(
        "environments", everywhere, high=space.environments[1]
    )
    if space.environments[0] > 1:
        made.rows["environments", 0, 1] = model.row(
            "environments", everywhere, low=space.environments[0]
        )
    if flight and space.in_flight < space.environments[1]:
        made.rows["staleness", 0, 0] = model.row("staleness", flight, high=space.in_flight)


def _count(
    made: Program, space: Space, chosen: Sequence[Sequence[int]], stage: str
) -> dict[int, float]:
    """Replicas of the stage, over all classes."""
    terms: dict[int, float] = {}
    for k, each in enumerate(space.classes):
        for j, option in enumerate(each.on_cores):
            if option.stage == stage:
                terms[made.replicas[k, j]] = 1.0
        for i in chosen[k]:
            members = (each.on_device[int(o)].stage for o in each.patterns.members[i] if o >= 0)
            if stage in members:
                terms[made.devices[k, i]] = 1.0
    return terms
