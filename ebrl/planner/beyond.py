"""What may be said beyond the points: how time goes on past the last batch and the last quota.

Invariants, on which the monotony of a stage's time rests: the ratio over the batch grows with the
batch; the ratio over the quota falls with the quota and never falls with the batch.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from ebrl.frontend.program import Work
from ebrl.planner import roofline
from ebrl.planner.hardware import DeviceKind

Floats = NDArray[np.float64]


class Law(Protocol):
    """How a stage's time and memory continue."""

    def over_batch(self, quota: float, batch: Floats, edge: Floats) -> Floats:
        """Time at each batch over that at the edge, 1 where they are equal."""
        ...

    def over_quota(self, quota: Floats, edge: float, batch: Floats) -> Floats:
        """Time at each quota over that at the edge, 1 where they are equal."""
        ...

    def memory(self, held: Floats, batch: Floats, edge: Floats) -> Floats:
        """Bytes at each batch, where `held` are those at the edge."""
        ...


class Cautious:
    """What monotony and concavity alone allow, where a stage declares no work.

    A larger batch takes proportionally longer, a smaller one as long; a larger quota helps nothing,
    a smaller one costs its share.
    """

    def over_batch(self, quota: float, batch: Floats, edge: Floats) -> Floats:
        del quota
        return np.asarray(np.maximum(1.0, batch / edge))

    def over_quota(self, quota: Floats, edge: float, batch: Floats) -> Floats:
        del batch
        return np.asarray(np.maximum(1.0, edge / quota))

    def memory(self, held: Floats, batch: Floats, edge: Floats) -> Floats:
        return np.asarray(held * np.maximum(1.0, batch / edge))


class Roofline:
    """The shape of the roofline, through the nearest point.

    Host work is left out of the ratio over the quota: it would let the ratio fall with the batch.
    A quota beyond the largest is credited with what it brings to a batch of one, the least it does.
    """

    def __init__(self, work: Work, device: DeviceKind | None, cores: float) -> None:
        self.work, self.device, self.cores = work, device, cores
        self.quota_work = (
            work if device is None else msgspec.structs.replace(work, core_seconds=0.0)
        )

    def over_batch(self, quota: float, batch: Floats, edge: Floats) -> Floats:
        here = roofline.seconds(self.work, self.device, quota, batch, self.cores)
        there = roofline.seconds(self.work, self.device, quota, edge, self.cores)
        return _ratio(here, there)

    def over_quota(self, quota: Floats, edge: float, batch: Floats) -> Floats:
        least = np.where(quota > edge, 1.0, batch)
        here = roofline.seconds(self.quota_work, self.device, quota, least, self.cores)
        there = roofline.seconds(self.quota_work, self.device, edge, least, self.cores)
        return _ratio(here, there)

    def memory(self, held: Floats, batch: Floats, edge: Floats) -> Floats:
        return np.asarray(held + self.work.activation_bytes * np.maximum(0.0, batch - edge))


def _ratio(here: Floats, there: Floats) -> Floats:
    """1 where the work is nothing, so that its time is the point's, whatever the quota."""
    known = there > 0
    return np.where(known, here / np.where(known, there, 1.0), 1.0)
