"""One node, or two, solved alone: which pattern each device follows, what the cores carry, and the
rollout rate that each node keeps up (the loop never leaves a node).

Invariant: what a `NodeFill` says it does, its own devices, cores and memory can do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ebrl.planner.model import milp
from ebrl.planner.model.allocation import busy_of
from ebrl.planner.model.learning import Cut
from ebrl.planner.model.milp import Built
from ebrl.planner.model.request import pinned
from ebrl.planner.model.solver import INFINITY, Outcome, solve
from ebrl.planner.model.space import SHARED_CORES, ClassSpace, Pattern, Space

EASE = 0.99  # how busy a process with a core of its own may be planned
HEADROOM = 0.9  # how busy one simulating process on pooled cores should be planned
# Among equals: fewer devices and replicas, no busier than they have to be, fewer environments.
PREFERENCES = {"device": 1e-6, "replica": 1e-7, "busy": 1e-8, "environment": 1e-9}
SLACK = 1e-9
NOTHING = 1e-7  # of a replica's rate
LOOSE = 1e-6  # relative: what a solver may miss of a row
ROLLOUT = Cut(rollout=1.0, learner=0.0, constant=0.0)
NODE_EFFORT = 500  # nodes of the search tree
GLOBAL = ("ranks", "shares", "staleness", "most environments", "pin")


class Busy(msgspec.Struct, frozen=True):
    """One replica-to-be: an option and the part of the time it works."""

    option: int
    busy: float


class NodeFill(msgspec.Struct, frozen=True, kw_only=True):
    """One node of class `k`. `environments` are those it needs; it may be given more."""

    k: int
    patterns: tuple[Pattern, ...]
    device_busy: tuple[tuple[Busy, ...], ...]  # by device, in the order of `patterns`
    on_cores: tuple[Busy, ...]
    rollout: float
    learner: float
    environments: int
    index: int = 0  # within its class


def model_of(
    space: Space,
    nodes: Sequence[tuple[int, Sequence[Pattern]]],
    environments: int,
    *,
    cuts: Sequence[Cut] = (ROLLOUT,),
    plain: bool = False,
) -> Built:
    """The model of these nodes, (class, patterns) each: for their rollout rate, or for what other
    cuts say of throughput; `plain`: with no preference among equals."""
    alone = replace(
        space,
        classes=tuple(
            replace(
                space.classes[k],
                node=msgspec.structs.replace(space.classes[k].node, count=1),
                patterns=tuple(sorted(set(patterns))),
            )
            for k, patterns in nodes
        ),
        mode=None if space.mode is None else replace(space.mode, shards=1),
        environments=(0, environments),
        pins=space.pins if _single(space) else (),
        objective="throughput",
        at_least=None,
    )
    options = [o for each in alone.classes for o in (*each.on_device, *each.on_cores)]
    scale = max((option.rate for option in options), default=1.0)
    made = milp.build(alone, cuts, scale)
    model = made.model
    if plain:  # close limits, for the sake of what duals prove
        replicas = sum(each.node.devices + each.node.cores for each in alone.classes)
        most = replicas / min((demand.items for demand in space.demands), default=1.0)
        for column in (made.throughput, made.learner, *made.rollout):
            model.high[column] = min(model.high[column], most)
        return made
    for column in made.devices.values():
        model.objective[column] -= PREFERENCES["device"]
    for column in made.replicas.values():
        model.objective[column] -= PREFERENCES["replica"]
    for columns in (made.busy_cores, made.busy_device, made.busy_turns):
        for column in columns.values():
            model.objective[column] -= PREFERENCES["busy"]
    for column in made.environments:
        model.objective[column] -= PREFERENCES["environment"]
    return made


def _single(space: Space) -> bool:
    return sum(each.node.count for each in space.classes) == 1


def charge(made: Built, prices: Mapping[milp.Row, float]) -> None:
    """Make the node pay for what all nodes share, instead of maximising its rollout alone.

    `prices` are those of a master problem: per environment step a second of rollout and of learner
    capacity ("rollout", "capacity"), and of the rows over all nodes.
    """
    model = made.model
    model.objective[made.throughput] = 0.0
    model.objective[made.rollout[0]] += prices[("rollout",)] * made.scale
    if made.learner >= 0:
        model.objective[made.learner] += prices[("capacity",)] * made.scale
    for row, number in made.rows.items():
        if not shared(row):
            continue
        price = prices.get(row, 0.0)
        for column, coefficient in model.rows[number].items():
            model.objective[column] -= price * coefficient
        if row[0] == "pace":  # kept by all nodes together
            model.row_low[number] = -INFINITY
            model.row_high[number] = INFINITY
            model.rows[number] = {}
            model.row_low[number] = 0.0
    if made.learner >= 0:
        model.high[made.learner] = min(model.high[made.learner], 1e9)


def shared(row: milp.Row) -> bool:
    """Is it one that all nodes share?"""
    return row[0] in GLOBAL or (row[0] == "pace" and len(row) == 2)


def solve_node(
    made: Built,
    *,
    resolution: float = 1e-7,
    node_limit: int = NODE_EFFORT,
    presolve: bool = True,
) -> Outcome:
    return solve(made.model, relative_gap=resolution, node_limit=node_limit, presolve=presolve)


def read(space: Space, k: int, made: Built, outcome: Outcome, at: int = 0) -> NodeFill:
    """What a solved node of class `k` does; it is number `at` of the model."""
    each, values = space.classes[k], outcome.values
    hand: list[Pattern] = []
    rollout = values[made.rollout[at]] * made.scale
    turning = rollout > NOTHING * made.scale  # else the loop has nothing to do here
    for (place, pattern), column in made.devices.items():
        if place != at:
            continue
        loops = all(space.demand(each.on_device[o].stage).loop for o in pattern.members)
        hand += [pattern] * (round(values[column]) if turning or not loops else 0)
    hand.sort()
    needed = _needed(made, values, at)
    on_cores: list[Busy] = []
    for (place, j), column in sorted(made.replicas.items()):
        if place != at or (space.demand(each.on_cores[j].stage).loop and not turning):
            continue
        works, count = values[made.busy_cores[at, j]], round(values[column])
        works *= needed.get(each.on_cores[j].stage, 1.0)
        demand = space.demand(each.on_cores[j].stage)
        if not demand.learns and pinned(space.pins, demand.name, "replicas") is None:
            count = min(count, max(1, math.ceil(works / EASE - 1e-9)))
            if demand.holds and _crowded(each, works, count):
                count = min(count + 1, max(1, round(values[made.environments[at]])))
        if count:
            on_cores += [Busy(j, works / count)] * count
    seated = {each.on_device[o].stage for pattern in hand for o in pattern.members}
    idle = not turning and not any(space.demand(stage).loop for stage in seated)
    shares = tuple(
        tuple(Busy(o, busy_of(made, values, at, pattern, o)) for o in pattern.members)
        for pattern in hand
    )
    ease = 1 / _overfull(space, k, hand, shares)
    return NodeFill(
        k=k,
        patterns=tuple(hand),
        device_busy=tuple(tuple(Busy(b.option, b.busy * ease) for b in each) for each in shares),
        on_cores=tuple(Busy(b.option, b.busy * ease) for b in on_cores),
        rollout=0.0 if idle else rollout * ease,
        learner=_learner(made, values, at) * ease,
        environments=0 if idle else round(values[made.environments[at]]),
    )


def _needed(made: Built, values: Sequence[float], at: int) -> dict[str, float]:
    """The part of what the loop's stages were made to do that the node's rollout asks for: more is
    worth nothing, and a solver may not have cared."""
    supply: dict[str, float] = defaultdict(float)
    for k, j in made.busy_cores:
        if k == at:
            option = made.space.classes[k].on_cores[j]
            supply[option.stage] += option.rate * values[made.busy_cores[k, j]]
    for (k, o), column in made.busy_device.items():
        if k == at:
            option = made.space.classes[k].on_device[o]
            supply[option.stage] += option.rate * values[column]
    for (k, _, o), column in made.busy_turns.items():
        if k == at:
            option = made.space.classes[k].on_device[o]
            supply[option.stage] += option.rate * values[column]
    rollout = values[made.rollout[at]] * made.scale
    return {
        demand.name: min(1.0, demand.items * rollout / supply[demand.name])
        for demand in made.space.demands
        if demand.loop and supply[demand.name] > 0
    }


def _overfull(
    space: Space, k: int, hand: Sequence[Pattern], works: Sequence[Sequence[Busy]]
) -> float:
    """How much more than all its time the fullest device is busy, by what a solver misses of a row;
    a node that does everything so much slower keeps to its time."""
    most = 1.0
    for pattern, busy in zip(hand, works, strict=True):
        met = [b.busy for b in busy if not space.apart(space.classes[k].on_device[b.option])]
        apart = [b.busy for b in busy if space.apart(space.classes[k].on_device[b.option])]
        full = math.fsum(met) if pattern.turns else max(met, default=0.0)
        most = max(most, full * pattern.slowdown, *apart)
    return most


def _learner(made: Built, values: Sequence[float], at: int) -> float:
    """The node's part of the learner's capacity, by what its ranks do of all ranks' work."""
    if made.learner < 0:
        return 0.0
    work = [0.0] * len(made.space.classes)
    for place, each in enumerate(made.space.classes):
        learns = [made.space.demand(option.stage).learns for option in each.on_device]
        for o in (o for o, yes in enumerate(learns) if yes):
            busy = values[made.busy_device[place, o]] if (place, o) in made.busy_device else 0.0
            work[place] += each.on_device[o].rate * busy
        for (p, _, o), column in made.busy_turns.items():
            if p == place and learns[o]:
                work[place] += each.on_device[o].rate * values[column]
        for j, option in enumerate(each.on_cores):
            if made.space.demand(option.stage).learns:
                work[place] += option.rate * values[made.busy_cores[place, j]]
    everything = math.fsum(work)
    share = work[at] / everything if everything > 0 else 1.0
    return values[made.learner] * made.scale * share


def _crowded(each: ClassSpace, busy: float, count: int) -> bool:
    """Would these processes, on pooled cores, hardly ever wait? Then one more is better."""
    return 0 < count < each.node.cores <= SHARED_CORES and busy > HEADROOM * count


def uses(space: Space, fill: NodeFill) -> dict[milp.Row, float]:
    """What one such node puts into the rows that all nodes share."""
    each = space.classes[fill.k]
    found: dict[milp.Row, float] = {
        ("nodes", fill.k): 1.0,
        ("rollout",): fill.rollout,
        ("capacity",): fill.learner,
        ("most environments",): float(fill.environments),
        ("fewest environments",): float(fill.environments),
    }
    seats = [(each.on_device[b.option], b.busy) for works in fill.device_busy for b in works]
    seats += [(each.on_cores[b.option], b.busy) for b in fill.on_cores]
    hosts = False
    for option, works in seats:
        s = space.index(option.stage)
        demand = space.demands[s]
        found["pin", s] = found.get(("pin", s), 0.0) + 1.0
        if demand.learns:
            hosts = True
            for row, amount in ((("ranks", s), 1.0), (("shares", s), float(option.batch))):
                found[row] = found.get(row, 0.0) + amount
        elif demand.loop:
            found["staleness",] = found.get(("staleness",), 0.0) + works * option.batch
        else:
            found["pace", s] = found.get(("pace", s), 0.0) + works * option.rate
    found["hosts",] = float(hosts)
    return found


def busy_total(fill: NodeFill) -> float:
    return math.fsum(b.busy for works in fill.device_busy for b in works)
