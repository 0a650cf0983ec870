"""The last step of binding: one node after another is planned again, given what all others do.

How many of each kind is a coarse choice; a node that knows what the others lack makes up for it.
Invariant: throughput never falls, and each step is nodes solved alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from ebrl.planner.binding.node import NodeFill, model_of, read, solve_node
from ebrl.planner.binding.result import Binding, binding, total_uses
from ebrl.planner.model.allocation import Allocation
from ebrl.planner.model.learning import Cut, cuts, first_cuts, throughput
from ebrl.planner.model.search import TOLERANCE
from ebrl.planner.model.space import Pattern, Space

SOLVES = 24  # programs, at most
KINDS = 6  # different nodes to plan again
EFFORT = 200  # nodes of the search tree
TANGENTS = 8
GAIN = 1e-6

Nodes = Sequence[tuple[int, Sequence[Pattern]]]  # class, and the patterns to make it of


def polish(
    found: Allocation, start: Binding, patterns: Sequence[tuple[Pattern, ...]], enough: float
) -> Binding:
    """Better, or the same; no better than `enough` has to be looked for."""
    space, best = found.space, start
    if space.objective != "throughput" or any(pin.key == "replicas" for pin in space.pins):
        return start
    solves, tried = 0, set[NodeFill]()
    while best.value < enough and solves < SOLVES:
        before = best.value
        for node, others in _neighbours(space, best):
            if node in tried or solves >= SOLVES:
                continue
            solves += 1
            again = together(space, [(node.k, patterns[node.k])], others)
            if again is None:
                continue
            changed = binding(space, sorted((*others, *again), key=lambda each: each.k))
            if changed.value > best.value * (1 + GAIN):
                best, tried = changed, set()
                break
            tried.add(node)
        if best.value <= before:
            break
    return best


def _neighbours(space: Space, current: Binding) -> Iterator[tuple[NodeFill, list[NodeFill]]]:
    """(a node to plan again, all others): one of each kind, the rarest first, or an idle one."""
    plain = [replace(node, index=0) for node in current.nodes]
    counts = Counter(plain)
    for node in sorted(counts, key=lambda kind: (counts[kind], plain.index(kind)))[:KINDS]:
        others = list(plain)
        others.remove(node)
        yield node, others
    for k, each in enumerate(space.classes):
        if sum(node.k == k for node in plain) < each.node.count:
            yield _idle(k), plain


def _idle(k: int) -> NodeFill:
    return NodeFill(
        k=k, patterns=(), device_busy=(), on_cores=(), rollout=0.0, learner=0.0, environments=0
    )


def together(
    space: Space,
    nodes: Nodes,
    others: Sequence[NodeFill],
    hand: Mapping[Pattern, int] | None = None,
) -> list[NodeFill] | None:
    """The best such nodes beside the others, a single one with exactly this hand if given."""
    used = total_uses(space, others)
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
        made = model_of(part, nodes, max(0, int(left)), cuts=shifted)
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
        fills = [read(space, k, made, outcome, at) for at, (k, _) in enumerate(nodes)]
        total = (
            rollout + sum(fill.rollout for fill in fills),
            learner + sum(fill.learner for fill in fills),
        )
        claimed = outcome.values[made.throughput] * made.scale
        real = throughput(space.schedule, space.mode, *total)
        if claimed <= real * (1 + TOLERANCE) or space.mode is None or min(total) <= 0:
            break
        tangents += cuts(space.schedule, space.mode, *total)
    return [fill for fill in fills if fill.patterns or fill.on_cores]
