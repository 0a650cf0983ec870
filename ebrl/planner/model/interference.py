"""How much stages slow each other down on one device, although each has its own SMs: the
second-level cache, memory bandwidth and copy engines are shared. Published slowdowns reach 1.3.

Invariant: a factor is at least one, depends on which stages meet and not on their names or order,
and does not fall when another stage joins.
"""

from __future__ import annotations

import msgspec

from ebrl.planner.plan import Interference

TOGETHER = {1: 1.0, 2: 1.1, 3: 1.2}  # assumed, by the number of stages on split SMs
MOST = 1.3
TURNS = 1.05  # assumed: taking turns costs switching, whoever the stages are


class Slowdowns(msgspec.Struct, frozen=True, kw_only=True):
    """Measured factors where there are any, assumptions for the rest."""

    known: tuple[Interference, ...] = ()

    def of(self, stages: frozenset[str], *, turns: bool = False) -> float:
        """The factor for stages that meet on one device."""
        if len(stages) < 2:
            return 1.0
        for each in self.known:
            if frozenset(each.stages) == stages and each.turns is turns:
                return each.factor
        return TURNS if turns else TOGETHER.get(len(stages), MOST)

    def entry(self, stages: frozenset[str], *, turns: bool = False) -> Interference:
        """The factor as a plan records it."""
        for each in self.known:
            if frozenset(each.stages) == stages and each.turns is turns:
                return each
        return Interference(
            stages=tuple(sorted(stages)), factor=self.of(stages, turns=turns), turns=turns
        )
