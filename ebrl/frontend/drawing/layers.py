"""Which column a box is in, and in which order: the first half of a layered layout.

After Sugiyama, Tagawa and Toda (1981). A link over several columns has a lane in each one between.
Invariant: but for the links that close a loop, each leads from a column to one further right.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx

Lane = tuple[int, int]  # a link's index, a column
Item = str | Lane  # a box by its name, or a lane


@dataclass(frozen=True, slots=True)
class Link:
    """From box to box. `feedback`: drawn backwards when it closes a loop."""

    source: str
    target: str
    feedback: bool = False


@dataclass(frozen=True, slots=True)
class Layers:
    """Items of each column from the top; for each link its items from left to right."""

    columns: list[list[Item]]
    chains: list[list[Item]]

    @property
    def columns_of(self) -> dict[Item, int]:
        return {item: number for number, items in enumerate(self.columns) for item in items}


def arrange(names: Sequence[str], links: Sequence[Link]) -> Layers:
    """Few crossings, short ways. Two items of a column are swapped for as long as it helps."""
    column = _columns(names, links)
    columns: list[list[Item]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for name in names:
        columns[column[name]].append(name)
    chains: list[list[Item]] = []
    for number, link in enumerate(links):
        left, right = sorted((link.source, link.target), key=column.__getitem__)
        lanes = [(number, each) for each in range(column[left] + 1, column[right])]
        for lane in lanes:
            columns[lane[1]].append(lane)
        chains.append([left, *lanes, right])
    steps = [pair for chain in chains for pair in itertools.pairwise(chain)]
    best = _badness(columns, steps)
    improved = True
    while improved:
        improved = False
        for items in columns:
            for a, b in itertools.combinations(range(len(items)), 2):
                items[a], items[b] = items[b], items[a]
                now = _badness(columns, steps)
                if now < best:
                    best, improved = now, True
                else:
                    items[a], items[b] = items[b], items[a]
    return Layers(columns, chains)


def _columns(names: Sequence[str], links: Sequence[Link]) -> dict[str, int]:
    """Each box right of what feeds it, but for the links that would close a loop."""
    forward = nx.DiGraph()
    forward.add_nodes_from(names)
    for link in sorted(links, key=lambda each: each.feedback):
        if not nx.has_path(forward, link.target, link.source):
            forward.add_edge(link.source, link.target)
    generations = enumerate(nx.topological_generations(forward))
    return {name: number for number, found in generations for name in found}


def _badness(columns: list[list[Item]], steps: list[tuple[Item, Item]]) -> tuple[int, float]:
    """Crossings, then how far from level the links are."""
    at = {item: number for items in columns for number, item in enumerate(items)}
    of = {item: number for number, items in enumerate(columns) for item in items}
    crossings = sum(
        (at[a] - at[c]) * (at[b] - at[d]) < 0
        for (a, b), (c, d) in itertools.combinations(steps, 2)
        if of[a] == of[c]
    )
    middle = {item: at[item] - len(columns[of[item]]) / 2 for item in at}
    return crossings, sum(abs(middle[a] - middle[b]) for a, b in steps)
