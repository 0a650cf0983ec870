"""Action noise that depends on what it is for, not on who computes it when.

Invariant: the numbers of decision d of environment e in a run with seed s are a function of (s, e,
d) alone, so a sample does not depend on which environments happened to share its batch. They come
from Philox, a counter-based generator keyed by (s, e, block), drawn in blocks of decisions: what it
costs to begin one (35 µs) is shared by as many as fit in `KEPT` numbers an environment.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

KEPT = 4096  # numbers drawn ahead for each environment
BLOCKS = (16, 512)  # decisions in a block: at least, at most


def block_of(size: int) -> int:
    """Decisions drawn at once, where one takes `size` numbers."""
    fewest, most = BLOCKS
    return max(fewest, min(most, KEPT // max(1, size)))


class Noise:
    """Noise for environments [first, last) of a run."""

    def __init__(
        self,
        *,
        seed: int,
        first: int,
        last: int,
        size: int,
        kind: Literal["normal", "uniform"],
    ) -> None:
        self._seed = seed
        self._first = first
        self._size = size
        self._kind = kind
        self._block = block_of(size)
        self._blocks = np.zeros((last - first, self._block, size), np.float32)
        self._block_of = np.full(last - first, -1, np.int64)

    def draw(
        self, environments: NDArray[np.int64], decisions: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Noise [b, size] for decision `decisions[i]` of environment `environments[i]`."""
        rows = environments - self._first
        blocks = decisions // self._block
        for row in rows[self._block_of[rows] != blocks]:
            self._fill(int(row), int(blocks[np.flatnonzero(rows == row)[0]]))
        drawn: NDArray[np.float32] = self._blocks[rows, decisions - blocks * self._block]
        return drawn

    def _fill(self, row: int, block: int) -> None:
        sequence = np.random.SeedSequence(self._seed, spawn_key=(row + self._first, block))
        generator = np.random.Generator(np.random.Philox(sequence))
        shape = (self._block, self._size)
        if self._kind == "normal":
            self._blocks[row] = generator.standard_normal(shape, np.float32)
        else:
            self._blocks[row] = generator.random(shape, np.float32)
        self._block_of[row] = block
