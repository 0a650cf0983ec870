"""Pictures that lie apart in a pool, read where they lie.

A network that wants floats reads every byte once anyway: to gather the bytes first would be a
second pass over them. So an encoder is handed the pool and the rows, and converts row by row into
its own input, which costs what gathering and converting at once would.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Scattered:
    """Rows of `pool` [rows, ...], in the place of a gathered tensor [b, ...]."""

    __slots__ = ("_pool", "_rows")

    def __init__(self, pool: Tensor, rows: Sequence[int]) -> None:
        self._pool, self._rows = pool, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, part: slice) -> Scattered:
        return Scattered(self._pool, self._rows[part])

    def floats(self) -> Tensor:
        """[b, ...] as float32, in memory of its own."""
        pool = self._pool
        answer = torch.empty((len(self._rows), *pool.shape[1:]), device=pool.device)
        if self._rows:
            torch._foreach_copy_(list(answer.unbind(0)), [pool[row] for row in self._rows])
        return answer


def floats(observed: Tensor | Scattered) -> Tensor:
    """A new float32 tensor of what was observed, gathered or not."""
    return observed.floats() if isinstance(observed, Scattered) else observed.to(torch.float32)
