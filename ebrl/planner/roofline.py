"""An analytic stage time where nothing was measured; whatever comes from here is `estimated`."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebrl.frontend.program import Work
from ebrl.planner.hardware import DeviceKind
from ebrl.planner.profile import Point


def seconds(
    work: Work, device: DeviceKind | None, quota: ArrayLike, batch: ArrayLike
) -> NDArray[np.float64]:
    """Time of one batch; `quota` is SMs on a device, cores where `device` is None. Broadcasts."""
    raise NotImplementedError


def memory(work: Work, batch: ArrayLike) -> NDArray[np.int64]:
    """Resident bytes of one replica at that batch."""
    raise NotImplementedError


def points(
    stage: str,
    work: Work,
    device: DeviceKind | None,
    batches: tuple[int, ...],
    quotas: tuple[float, ...] | None = None,
    cores: float = 1.0,
) -> tuple[Point, ...]:
    """Estimated points over a grid (quotas: those of the device, or cores)."""
    raise NotImplementedError
