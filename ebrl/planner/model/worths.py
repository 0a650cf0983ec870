"""What options are worth at given prices: the coefficients of their columns, kept as matrices.

Invariant: coefficients come from the functions that build the model, so prices and model agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from ebrl.planner.model import milp
from ebrl.planner.model.space import Space

Prices = Mapping[milp.Row, float]


class Gains(msgspec.Struct, frozen=True):
    """What each option is worth, [options]: its busy time and its seat (what it takes up, so mostly
    negative), with SMs and host cores of its own or in turns."""

    works: NDArray[np.float64]
    sits: NDArray[np.float64]
    works_in_turn: NDArray[np.float64]
    sits_in_turn: NDArray[np.float64]


class Worths:
    """The coefficients of a class's options, kept as matrices, to be multiplied by prices."""

    def __init__(self, space: Space, k: int) -> None:
        options = space.classes[k].on_device
        self._rows: dict[milp.Row, int] = {}
        self._count = len(options)
        self._tables = [
            self._table([list(milp.busy(space, k, option)) for option in options]),
            self._table([list(milp.seat(space, k, o, own_cores=True)) for o in options]),
            self._table([list(milp.seat(space, k, o, own_cores=False)) for o in options]),
            self._table([[(("cores", k, False), option.cores)] for option in options]),
        ]

    def _table(self, entries: Sequence[Sequence[milp.Entry]]) -> tuple[NDArray[np.float64], ...]:
        rows = [
            (o, self._rows.setdefault(row, len(self._rows)), coefficient)
            for o, some in enumerate(entries)
            for row, coefficient in some
        ]
        return tuple(np.array(each) for each in zip(*rows, strict=True)) if rows else ()

    def at(self, prices: Prices) -> Gains:
        """At these prices."""
        price = np.array([prices.get(row, 0.0) for row in self._rows])
        busy, own, shared, cores = (
            -np.bincount(t[0], weights=t[2] * price[t[1]], minlength=self._count).astype(float)
            for t in self._tables
        )
        return Gains(np.maximum(busy, 0.0), own, np.maximum(busy + cores, 0.0), shared)
