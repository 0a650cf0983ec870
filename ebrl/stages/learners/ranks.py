"""Several processes that are one learner: each computes a share of every gradient.

Invariant: all ranks hold the same weights, optimizer and generator, and go through the same steps
in the same order; what differs is only which rows of a minibatch each computes. The sum over ranks
is that of one learner up to the order of additions. Whether to stop is agreed on, never one rank's
own decision, or the others would wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

PATIENCE = timedelta(hours=1)  # whoever supervises the ranks sees the death of one much sooner


class Ranks:
    """This process as `rank` of `world`. They find each other by a file, and talk by loopback."""

    def __init__(self, rank: int, world: int, meeting: str, device: torch.device) -> None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self.rank, self.world = rank, world
        backend = "gloo" if device.type == "cpu" else "nccl"
        store: Any = vars(dist)["FileStore"](meeting, world)  # not in its __all__
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=PATIENCE)
        self._device = device

    def share(self, start: int, stop: int) -> tuple[int, int]:
        """This rank's part of [start, stop)."""
        size = stop - start
        return start + size * self.rank // self.world, start + size * (self.rank + 1) // self.world

    def reduce(self, gradient: Tensor, weight: float) -> None:
        """The sum over ranks of gradient times weight, in place; weights add up to one."""
        gradient.mul_(weight)
        dist.all_reduce(gradient)

    def filled(self, parts: NDArray[np.float32]) -> NDArray[np.float32]:
        """Every rank's part of an array, each of which is zero elsewhere."""
        whole = torch.from_numpy(parts).to(self._device)
        dist.all_reduce(whole)
        found: NDArray[np.float32] = whole.cpu().numpy()
        return found

    def average(self, values: Tensor) -> None:
        """The mean over ranks, in place."""
        dist.all_reduce(values)
        values.div_(self.world)

    def agreed(self, should_stop: Callable[[], bool]) -> Callable[[], bool]:
        """Yes on every rank as soon as one says so."""
        said = torch.zeros(1, device=self._device)

        def any_says_so() -> bool:
            said.fill_(float(should_stop()))
            dist.all_reduce(said)
            return bool(said.item())

        return any_says_so

    def wait(self) -> None:
        """Until every rank has come here."""
        dist.barrier()

    def leave(self) -> None:
        dist.destroy_process_group()
