"""The rows of a batch, read from the slab by index.

Invariant: nothing of the batch is copied but the rows asked for, and of those not what the network
reads in place. Observations keep their dtype (uint8 images stay uint8) until the network takes
them. On a device, the batch's observations are moved there once, as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ebrl.stages.policies.scattered import Scattered
from ebrl.stages.protocols import Array, Batch

# Up to this many bytes of observations are gathered once an epoch, in shuffled order; more than
# this (images) once a minibatch.
GATHER_BYTES = 1 << 25


class Rows:
    """Observations of the batch by row number n * (T + 1) + t; n counts the batch's segments."""

    def __init__(
        self, batch: Batch, device: torch.device, in_place: frozenset[str] = frozenset()
    ) -> None:
        """`in_place`: what the network takes as `Scattered`; on a device, nothing."""
        first = next(iter(batch.obs.values()))
        self.segments, self.length = len(batch.segment), first.shape[1]
        self._device = device
        pool_row = batch.segment[:, None] * self.length + np.arange(self.length)
        self._pool_row = torch.from_numpy(pool_row.ravel().astype(np.int64))
        self._views: dict[str, Tensor] = {}
        self.row_bytes = 0
        for path, array in batch.obs.items():
            self.row_bytes += array.itemsize * int(np.prod(array.shape[2:], dtype=np.int64))
            flat = torch.from_numpy(merged(array))
            self._views[path] = flat
        self._in_place = in_place if device.type == "cpu" else frozenset()
        if device.type != "cpu":
            self._views = {
                path: flat.index_select(0, self._pool_row).to(device)
                for path, flat in self._views.items()
            }
            self._pool_row = torch.arange(len(self._pool_row), device=device)

    def take(self, rows: Tensor, paths: Sequence[str] | None = None) -> dict[str, Any]:
        """Observations [len(rows), ...] by path (of `paths`, or all), on the device."""
        at = self._pool_row.index_select(0, rows)
        wanted = self._views if paths is None else paths
        found: dict[str, Any] = {}
        for path in wanted:
            view = self._views[path]
            scattered = path in self._in_place
            found[path] = Scattered(view, at.tolist()) if scattered else view.index_select(0, at)
        return found


def slices(obs: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    return {path: tensor[start:stop] for path, tensor in obs.items()}


def merged(array: Array) -> Array:
    """[pool, T + 1, ...] as [pool * (T + 1), ...]: a view where memory allows, else a copy."""
    return array.reshape(-1, *array.shape[2:])


def picked(array: Array, segment: NDArray[np.int64]) -> Array:
    """The batch's segments of a per-decision array, as a copy [N, T, ...]."""
    return array[segment]
