"""The integer program: how many devices follow each pattern, how many replicas run on cores.

Columns: R (throughput), Φ (learner capacity); by class: nodes in use, rollout rate, environments
E, n (devices of a pattern), m (replicas of an option on cores), y (how many replicas' worth of
time an option is busy: y ≤ m, y ≤ Σ n/slowdown). Rows by class: devices, cores (a core-second is
spent once), RAM, the loop's stages keep pace, environments in flight (Little); over classes: the
other stages keep pace, ranks, staleness, and the tangents that bound R.

The model is built by column: `busy` and `seat` say what a column puts into which row, and pricing
asks the same two functions. Invariant: every row holds for every real plan, so a relaxation's
bound is one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import msgspec

from ebrl.planner.model.learning import Cut
from ebrl.planner.model.options import Option
from ebrl.planner.model.request import pinned
from ebrl.planner.model.solver import INFINITY, Model
from ebrl.planner.model.space import ClassSpace, Pattern, Space

Row = tuple[Hashable, ...]
Entry = tuple[Row, float]
EVERYTHING = 1e6  # environments: more than any pipeline has
SAFETY = 2e-6  # relative: a solver keeps its rows to about half of it
MOST_PER_S = 1e12  # environment steps a second: more than any pipeline makes


class Built(msgspec.Struct):
    """A model, and the numbers of its columns and rows by meaning."""

    space: Space
    scale: float  # R is counted in this many environment steps a second
    model: Model = msgspec.field(default_factory=Model)
    throughput: int = -1
    learner: int = -1
    nodes: list[int] = msgspec.field(default_factory=list)
    rollout: list[int] = msgspec.field(default_factory=list)
    environments: list[int] = msgspec.field(default_factory=list)
    devices: dict[tuple[int, Pattern], int] = msgspec.field(default_factory=dict)
    replicas: dict[tuple[int, int], int] = msgspec.field(default_factory=dict)
    busy_cores: dict[tuple[int, int], int] = msgspec.field(default_factory=dict)
    busy_device: dict[tuple[int, int], int] = msgspec.field(default_factory=dict)
    busy_turns: dict[tuple[int, Pattern, int], int] = msgspec.field(default_factory=dict)
    rows: dict[Row, int] = msgspec.field(default_factory=dict)
    short: list[int] = msgspec.field(default_factory=list)

    def put(self, column: int, entries: Iterator[Entry] | Sequence[Entry]) -> None:
        """Coefficients of a column, into the rows that the model has."""
        for row, coefficient in entries:
            number = self.rows.get(row)
            if number is not None and coefficient:
                terms = self.model.rows[number]
                terms[column] = terms.get(column, 0.0) + coefficient


def build(space: Space, cuts: Sequence[Cut], scale: float, *, soft: bool = False) -> Built:
    """The model of a space; `scale` keeps its numbers near its counts. `soft`: rows may fall short
    of their lower limits, and by how much is what is minimised (the first phase of a simplex)."""
    made = Built(space=space, scale=scale)
    for row, name, low, high in _rows(space):
        made.rows[row] = made.model.row(name, {}, low=low, high=high)
    _global_columns(made)
    for k, each in enumerate(space.classes):
        _class_columns(made, k, each)
        for j in range(len(each.on_cores)):
            _core_columns(made, k, j)
        for pattern in each.patterns:
            _pattern_columns(made, k, pattern)
    for cut in cuts:
        add_cut(made, cut)
    if soft:
        _soften(made)
    return made


def _soften(made: Built) -> None:
    """Slack for every row that asks for something, and no other objective."""
    model = made.model
    model.objective = [0.0] * len(model.objective)
    for number in made.rows.values():
        low, high = model.row_low[number], model.row_high[number]
        if low > 0:
            column = model.column("short", objective=-1.0)
            made.short.append(column)
            model.rows[number][column] = 1.0
            if high == low:
                column = model.column("over", objective=-1.0)
                made.short.append(column)
                model.rows[number][column] = -1.0


def add_cut(made: Built, cut: Cut) -> None:
    """One more upper bound of throughput."""
    terms = {made.throughput: 1.0}
    for column in made.rollout:
        terms[column] = -cut.rollout
    if made.learner >= 0:
        terms[made.learner] = -cut.learner
    made.model.row("tangent", terms, high=cut.constant / made.scale)


# -- rows ----------------------------------------------------------------------------------------


def _rows(space: Space) -> Iterator[tuple[Row, str, float, float]]:
    """Every row: key, name, lower and upper limit."""
    for k, each in enumerate(space.classes):
        name = each.node.name
        yield ("devices", k), f"devices of {name}", -INFINITY, 0.0
        yield ("cores", k, False), f"cores of {name}", -INFINITY, 0.0
        if space.schedule == "synchronous":
            yield ("cores", k, True), f"cores of {name} for training", -INFINITY, 0.0
        yield ("ram", k), f"RAM of {name}", -INFINITY, 0.0
        yield ("flight", k), f"environments in flight on {name}", -INFINITY, 0.0
        for s, demand in enumerate(space.demands):
            if demand.loop:
                yield ("pace", k, s), f"{demand.name} keeps pace on {name}", 0.0, INFINITY
                yield ("held", k, s), f"environments for {demand.name}", -INFINITY, 0.0
                if demand.holds:
                    yield ("room", k, s), f"room in {demand.name}", -INFINITY, 0.0
    for s, demand in enumerate(space.demands):
        if demand.learns:
            assert space.mode is not None
            yield ("learner", s), "learner capacity", 0.0, INFINITY
            yield ("ranks", s), "ranks", -INFINITY, float(space.mode.ranks)
            yield ("shares", s), "shares of an update", -INFINITY, float(space.mode.batch)
            if space.mode.shards > 1:
                yield ("shards", s), "shards", float(space.mode.shards), INFINITY
        elif not demand.loop:
            yield ("pace", s), f"{demand.name} keeps pace", 0.0, INFINITY
        replicas = pinned(space.pins, demand.name, "replicas")
        if replicas is not None:
            yield ("pin", s), f"pin {demand.name}.replicas", replicas, replicas
    low, high = space.environments
    yield ("most environments",), "environments", -INFINITY, float(high)
    yield ("fewest environments",), "environments", float(low), INFINITY
    if space.in_flight < INFINITY:
        yield ("staleness",), "staleness", -INFINITY, space.in_flight


# -- what a column puts into the rows ------------------------------------------------------------


def busy(space: Space, k: int, option: Option) -> Iterator[Entry]:
    """One replica's worth of busy time."""
    s = space.index(option.stage)
    demand = space.demands[s]
    if demand.learns:
        yield ("learner", s), option.rate
    elif demand.loop:
        yield ("pace", k, s), option.rate
        yield ("flight", k), option.batch
        yield ("staleness",), option.batch
    else:
        yield ("pace", s), option.rate


def seat(space: Space, k: int, option: Option, *, own_cores: bool) -> Iterator[Entry]:
    """One replica, whether busy or not. `own_cores`: it keeps its host cores to itself."""
    s = space.index(option.stage)
    demand = space.demands[s]
    yield ("ram", k), option.ram_bytes / 1e9
    yield ("pin", s), 1.0
    if own_cores:
        yield ("cores", k, space.apart(option)), option.cores
    if demand.learns:
        yield ("ranks", s), 1.0
        yield ("shards", s), 1.0
        yield ("shares", s), float(option.batch)
    elif demand.loop:
        alone = demand.holds and option.device == "cpu"  # it steps its environments one by one
        yield (
            ("held", k, s),
            1.0 if alone else float(option.resident or option.batch * space.groups),
        )
        if demand.holds:
            yield ("room", k, s), -(EVERYTHING if alone else float(option.resident))


# -- columns -------------------------------------------------------------------------------------


def _global_columns(made: Built) -> None:
    space, model = made.space, made.model
    maximise = space.objective == "throughput"
    made.throughput = model.column(
        "throughput",
        objective=1.0 if maximise else 0.0,
        high=MOST_PER_S / made.scale,
    )
    if space.at_least is not None:
        wanted = space.at_least * (1 + SAFETY) / made.scale
        made.rows["at least",] = model.row("at least", {made.throughput: 1.0}, low=wanted)
    if space.mode is not None:
        made.learner = model.column("learner capacity", high=MOST_PER_S / made.scale)
        for s, demand in enumerate(space.demands):
            if demand.learns:
                made.put(made.learner, [(("learner", s), -made.scale * demand.items)])


def _class_columns(made: Built, k: int, each: ClassSpace) -> None:
    """Nodes in use, rollout, environments."""
    space, model, node = made.space, made.model, each.node
    some = space.objective == "cost"
    nodes = model.column(
        f"nodes of {node.name}",
        low=0.0 if some else node.count,
        high=node.count,
        integer=some,
        objective=-(node.price_per_hour or 0.0) if some else 0.0,
    )
    made.nodes.append(nodes)
    made.put(nodes, [(("devices", k), -float(node.devices)), (("ram", k), -node.ram_bytes / 1e9)])
    made.put(nodes, [(("cores", k, apart), -float(node.cores)) for apart in (False, True)])
    rollout = model.column(f"rollout of {node.name}", high=MOST_PER_S / made.scale)
    made.rollout.append(rollout)
    environments = model.column(
        f"environments of {node.name}", high=space.environments[1], integer=True
    )
    made.environments.append(environments)
    for s, demand in enumerate(space.demands):
        pace = -demand.items * made.scale
        made.put(rollout, [(("pace", k, s), pace)] if demand.loop else [(("pace", s), pace)])
        made.put(environments, [(("held", k, s), -1.0), (("room", k, s), 1.0)])
    made.put(environments, [(("flight", k), -1.0)])
    made.put(environments, [((f"{which} environments",), 1.0) for which in ("most", "fewest")])
    ram = max((option.env_ram_bytes for option in each.on_cores), default=0.0)
    made.put(environments, [(("ram", k), ram / 1e9)])


def _core_columns(made: Built, k: int, j: int) -> None:
    space, model = made.space, made.model
    option, node = space.classes[k].on_cores[j], space.classes[k].node
    most = _most(space, option, node.count * node.cores)
    replicas = model.column(f"replicas of {option.stage}", high=most, integer=True)
    made.replicas[k, j] = replicas
    made.put(replicas, seat(space, k, option, own_cores=False))
    works = model.column(f"busy {option.stage}", high=most)
    made.busy_cores[k, j] = works
    made.put(works, busy(space, k, option))
    made.put(works, [(("cores", k, space.apart(option)), option.cores)])
    model.row("busy", {works: 1.0, replicas: -1.0}, high=0.0)


def _most(space: Space, option: Option, cores: int) -> int:
    if space.demand(option.stage).learns and space.mode is not None:
        return space.mode.ranks if space.mode.hardware == "cpu" else 0
    return max(1, min(2 * cores, space.environments[1]))


def _pattern_columns(made: Built, k: int, pattern: Pattern) -> None:
    space, model = made.space, made.model
    each = space.classes[k]
    limit = each.node.count * each.node.devices
    number = model.column("devices", high=limit, integer=True)
    if space.objective == "devices":
        model.objective[number] = -1.0
    made.devices[k, pattern] = number
    made.put(number, [(("devices", k), 1.0)])
    turns: dict[int, float] = {number: -1.0 / pattern.slowdown}
    for o in pattern.members:
        option = each.on_device[o]
        in_turn = pattern.turns and not space.apart(option)
        made.put(number, seat(space, k, option, own_cores=not in_turn))
        if in_turn:
            works = model.column(f"busy {option.stage}", high=limit)
            made.busy_turns[k, pattern, o] = works
            turns[works] = 1.0
            made.put(works, [(("cores", k, False), option.cores)])
            made.put(works, busy(space, k, option))
            continue
        if (k, o) not in made.busy_device:
            works = model.column(f"busy {option.stage}", high=limit)
            made.busy_device[k, o] = works
            made.put(works, busy(space, k, option))
            made.rows["busy", k, o] = model.row("busy", {works: 1.0}, high=0.0)
        slow = 1.0 if space.apart(option) else pattern.slowdown
        made.put(number, [(("busy", k, o), -1.0 / slow)])
    if len(turns) > 1:
        model.row("turns", turns, high=0.0)
