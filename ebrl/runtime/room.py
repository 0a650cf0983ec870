"""How many workers of each kind a run can have, now or by another plan: rows and bells for them.

Invariant: a worker's row follows from its kind and number alone, so that no row changes hands while
others stay at work.
"""

from __future__ import annotations

import msgspec

from ebrl.planner.layout import SPARE_WORKERS
from ebrl.planner.plan import Plan


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """The most workers of each kind. Ranks of the learner come first."""

    train: int
    generate: int
    simulate: int

    @property
    def rows(self) -> int:
        return self.train + self.generate + self.simulate

    def row(self, role: str, index: int) -> int:
        first = {"train": 0, "generate": self.train, "simulate": self.train + self.generate}
        return first[role] + index

    def names(self) -> tuple[str, ...]:
        """ "train 0", "generate 0", …"""
        return tuple(f"{role} {n}" for role, most in self.most().items() for n in range(most))

    def most(self) -> dict[str, int]:
        return {"train": self.train, "generate": self.generate, "simulate": self.simulate}


def room_of(plan: Plan) -> Room:
    """As the plan's shared memory is reckoned: its workers, and a few to spare."""
    count = {
        role: len(plan.of_kind(role)[0].replicas) for role in ("train", "generate", "simulate")
    }
    spare = SPARE_WORKERS // 2
    return Room(
        train=count["train"],
        generate=count["generate"] + SPARE_WORKERS - spare,
        simulate=count["simulate"] + spare,
    )
