"""The ledger: every environment step that was produced is trained on, thrown away with a reason, or
still in flight. The four figures come from different writers, so their balance proves something.
"""

from __future__ import annotations

import msgspec

from ebrl.planner.layout import DISCARD_REASONS
from ebrl.runtime.segments import Segments
from ebrl.runtime.slab import Slab


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Environment steps. `produced` is counted by the simulate workers as they step."""

    produced: int
    trained: int
    discarded: dict[str, int]
    in_flight: int

    @property
    def balance(self) -> int:
        """0, or how many steps are missing (positive) or counted twice (negative)."""
        return self.produced - self.trained - sum(self.discarded.values()) - self.in_flight


def read(slab: Slab, segments: Segments) -> Ledger:
    """The ledger; exact when no worker is running."""
    return Ledger(
        produced=int(slab["produced"][:, 0].sum()),
        trained=int(slab["trained"][0]),
        discarded=dict(zip(DISCARD_REASONS, map(int, slab["discarded"]), strict=True)),
        in_flight=segments.in_flight(),
    )
