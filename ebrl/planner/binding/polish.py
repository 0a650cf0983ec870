"""The last step of binding: one node after another is planned again, given what all others do.

Where nodes are few, how many of each kind is a coarse choice; a node that knows what the others
lack makes up for it. Invariant: throughput never falls, and each step is a node solved alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ebrl.planner.binding.node import NodeFill, model_of, read, solve_node, uses
from ebrl.planner.binding.result import Binding, binding
from ebrl.planner.model.allocation import Allocation
from ebrl.planner.model.learning import Cut, cuts, first_cuts, throughput
from ebrl.planner.model.milp import Row
from ebrl.planner.model.search import TOLERANCE
from ebrl.planner.model.space import Pattern, Space

ROUNDS = 4
KINDS = 6  # different nodes to plan again in a round
EFFORT = 200  # nodes of the search tree
TANGENTS = 8
GAIN = 1e-6


def polish(found: Allocation, start: Binding, patterns: Sequence[tuple[Pattern, ...]]) -> Binding:
    """Better, or the same."""
    space, best = found.space, start
    if space.objective != "throughput" or any(pin.key == "replicas" for pin in space.pins):
        return start
    for _ in range(ROUNDS):
        before = best.value
        for k, others in _choices(space, best):
            node = again(space, k, others, patterns[k])
            if node is None:
                continue
            changed = binding(space, sorted((*others, node), key=lambda each: each.k))
            if changed.value > best.value * (1 + GAIN):
                best = changed
                break
        if best.value <= before:
            break
    return best


def _choices(space: Space, current: Binding) -> list[tuple[int, list[NodeFill]]]:
    """(class, all other nodes) for one node of each kind, and for an idle node of each class."""
    plain = [replace(node, index=0) for node in current.nodes]
    found = []
    for kind in list(dict.fromkeys(plain))[:KINDS]:
        others = list(plain)
        others.remove(kind)
        found.append((kind.k, others))
    for k, each in enumerate(space.classes):
        if sum(node.k == k for node in plain) < each.node.count:
            found.append((k, plain))
    return found


def again(
    space: Space,
    k: int,
    others: Sequence[NodeFill],
    patterns: Sequence[Pattern],
    hand: Mapping[Pattern, int] | None = None,
) -> NodeFill | None:
    """The best node of this class beside the others, with exactly this hand if one is given."""
    used: dict[Row, float] = defaultdict(float)
    for node in others:
        for row, amount in uses(space, node).items():
            used[row] += amount
    rollout, learner = used[("rollout",)], used[("capacity",)]
    left = space.environments[1] - used[("most environments",)]
    part = replace(space, in_flight=max(0.0, space.in_flight - used[("staleness",)]))
    tangents = (
        list(first_cuts(space.mode)) if space.mode else [Cut(rollout=1, learner=0, constant=0)]
    )
    for _ in range(TANGENTS):
        shifted = [
            Cut(
                rollout=cut.rollout,
                learner=cut.learner,
                constant=cut.constant + cut.rollout * rollout + cut.learner * learner,
            )
            for cut in tangents
        ]
        made = model_of(part, k, patterns, max(0, int(left)), cuts=shifted)
        model = made.model
        for s, demand in enumerate(space.demands):
            if demand.learns and space.mode is not None:
                room = space.mode.ranks - used["ranks", s]
                if space.mode.span != "cluster" and used[("hosts",)]:
                    room = 0
                model.row_high[made.rows["ranks", s]] = max(0.0, room)
                model.row_high[made.rows["shares", s]] = space.mode.batch - used["shares", s]
                ranks = dict(model.rows[made.rows["ranks", s]])
                model.row("shards", ranks, low=space.mode.shards - used["ranks", s])
            elif not demand.loop:
                lack = demand.items * rollout - used["pace", s]
                model.row_low[made.rows["pace", s]] = lack
        for pattern, count in (hand or {}).items():
            column = made.devices[0, pattern]
            model.low[column] = model.high[column] = count
        outcome = (
            solve_node(made)
            if hand is not None
            else solve_node(made, resolution=1e-5, node_limit=EFFORT, presolve=False)
        )
        if not outcome.values:
            return None
        fill = read(space, k, made, outcome)
        total = (rollout + fill.rollout, learner + fill.learner)
        claimed = outcome.values[made.throughput] * made.scale
        real = throughput(space.schedule, space.mode, *total)
        if claimed <= real * (1 + TOLERANCE) or space.mode is None or min(total) <= 0:
            return fill
        tangents += cuts(space.schedule, space.mode, *total)
    return fill
