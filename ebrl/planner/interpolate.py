"""Stage time between measured points, and what may be said beyond them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebrl.frontend.program import Work
from ebrl.planner.hardware import DeviceKind
from ebrl.planner.profile import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Times of one batch, one element a query; all arrays have the broadcast shape of the query.

    `source` is the weakest provenance of what the element rests on; "estimated" beyond the hull.
    """

    median_s: NDArray[np.float64]
    p95_s: NDArray[np.float64]
    bytes: NDArray[np.int64]
    source: NDArray[np.str_]


class StageTime:
    """Time of one stage on one kind of device (`device=None`: on cores alone).

    `points` are those of this stage on this device; other places are ignored. `work` allows
    estimates beyond the measured hull and where there is no point at all, if `estimate` is true.
    """

    def __init__(
        self,
        stage: str,
        device: DeviceKind | None,
        points: Sequence[Point],
        *,
        work: Work | None = None,
        estimate: bool = False,
    ) -> None:
        raise NotImplementedError

    def seconds(self, quota: ArrayLike, cores: ArrayLike, batch: ArrayLike) -> Estimate:
        """`quota` in SMs (0 on cores), `cores` host cores of one replica, `batch` in items.

        Outside the hull: PlanError `profile-outside` that names the missing point, or an estimate.
        """
        raise NotImplementedError


def transfer(
    points: Sequence[Point], source: DeviceKind, target: DeviceKind, work: Work | None
) -> tuple[Point, ...]:
    """Points of one device as estimates for another, by the ratio of their rooflines."""
    raise NotImplementedError
