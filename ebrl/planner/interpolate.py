"""Stage time between measured points, and what may be said beyond them.

Between points, time is log-log linear in the batch and throughput linear in the quota, so that a
measured cliff stays where it was measured and concave measurements stay concave. A point that is
slower than a larger batch, or than a smaller quota, is replaced by that better one: a batch can be
padded, and a part of a quota left idle. Beyond the measured hull: a PlanError that names the
missing point or, where estimates are allowed, the roofline's shape through the nearest points.

Invariants: exact at the points (where they are monotone), monotone everywhere, and the standing of
a result is that of the weakest point under it; whatever lies beyond the hull is `estimated`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebrl.errors import PlanError
from ebrl.frontend.program import StageProgram, Work
from ebrl.planner import devices, profile, roofline
from ebrl.planner.beyond import Cautious, Roofline
from ebrl.planner.hardware import DeviceKind
from ebrl.planner.profile import CPU, SOURCES, STANDING, Point
from ebrl.planner.surface import Surface

ESTIMATED = STANDING["estimated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Times of one batch, one element a query; all arrays have the broadcast shape of the query.

    `source` is the weakest provenance of what the element rests on; "estimated" beyond the hull.
    `bytes` is what one replica holds on its device (or in RAM, on cores).
    """

    median_s: NDArray[np.float64]
    p95_s: NDArray[np.float64]
    bytes: NDArray[np.int64]
    source: NDArray[np.str_]


class StageTime:
    """Time of one stage on one kind of device (`device=None`: on cores alone).

    `points` are those of this stage on this device; other places are ignored. `work` allows
    estimates beyond the measured hull and where there is no point at all, if `estimate` is true.
    Raises PlanError `profile-missing` where there is nothing to go by.
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
        self.stage, self.device, self.work, self.estimate = stage, device, work, estimate
        self.device_name = CPU if device is None else device.name
        mine = [each for each in points if (each.stage, each.device) == (stage, self.device_name)]
        self.points: tuple[Point, ...] = tuple(self._with_bytes(p) for p in profile.of(mine).points)
        if not self.points and (work is None or not estimate):
            why = "estimates are not allowed" if work is not None else "it declares no work()"
            raise PlanError(
                "profile-missing",
                f"{stage!r} has no profile on {self.device_name}, and {why}",
                where=stage,
                hint="measure it: ebrl profile GRAPH -o FILE, then plan with --profile FILE",
            )
        self._surfaces: dict[float, Surface] = {}

    def _with_bytes(self, point: Point) -> Point:
        """Memory that the point does not state (0 bytes) is what work() says."""
        if point.bytes > 0 or self.work is None:
            return point
        resident = int(roofline.memory(self.work, self.device, point.batch))
        return msgspec.structs.replace(point, bytes=resident)

    def seconds(self, quota: ArrayLike, cores: ArrayLike, batch: ArrayLike) -> Estimate:
        """`quota` in SMs (0 on cores), `cores` host cores of one replica, `batch` in items.

        On cores alone the quota is `cores`; below the least cores that were measured, time follows
        from sharing them (core-seconds are conserved) and keeps its standing. Outside the hull:
        PlanError `profile-outside` that names the missing point, or an estimate.
        """
        q, c, b = (
            np.array(each, dtype=np.float64)
            for each in np.broadcast_arrays(
                np.asarray(quota), np.asarray(cores), np.asarray(batch), subok=False
            )
        )
        shape = q.shape
        q, c, b = q.ravel(), c.ravel(), b.ravel()
        assert bool(np.all(c > 0) and np.all(b >= 1)), "a query needs cores and a batch"
        median, p95 = np.empty(q.size), np.empty(q.size)
        resident = np.empty(q.size, dtype=np.int64)
        rank = np.empty(q.size, dtype=np.int64)
        for level in np.unique(c) if self.device is not None else [0.0]:
            here = slice(None) if self.device is None else np.flatnonzero(c == level)
            axis = c[here] if self.device is None else q[here]
            median[here], p95[here], resident[here], rank[here] = self._on(
                float(level), axis, b[here]
            )
        return Estimate(
            median_s=median.reshape(shape),
            p95_s=p95.reshape(shape),
            bytes=resident.reshape(shape),
            source=np.array(SOURCES)[rank].reshape(shape),
        )

    def _surface(self, cores: float) -> Surface | None:
        """The points that `cores` host cores allow; of each quota and batch those with the most."""
        if cores not in self._surfaces:
            chosen: dict[tuple[float, int], Point] = {}
            for point in self.points:  # in the order of cores within a quota
                if self.device is None:
                    chosen[point.cores, point.batch] = point
                elif point.cores <= cores * (1 + 1e-9):
                    chosen[float(point.sms), point.batch] = point
            if not chosen:
                return None
            law = Cautious() if self.work is None else Roofline(self.work, self.device, cores or 1)
            self._surfaces[cores] = Surface(chosen, law, through_origin=self.device is None)
        return self._surfaces[cores]

    def _on(
        self, cores: float, q: NDArray[np.float64], b: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Median, p95, bytes and rank, of one level of host cores."""
        surface = self._surface(cores)
        if surface is None and self.points:
            least = min(point.cores for point in self.points)
            if not self.estimate:
                self._refuse(q[0], cores, b[0], f"known: with {least:g} host cores or more")
            # At worst the host side is all of it, and takes its share of the cores longer.
            median, p95, resident, _ = self._on(least, q, b)
            slower = least / cores
            return median * slower, p95 * slower, resident, np.full(q.size, ESTIMATED)
        if surface is None:
            assert self.work is not None
            time = roofline.seconds(self.work, self.device, q, b, cores or 1.0)
            resident = roofline.memory(self.work, self.device, b)
            return time, time, resident, np.full(q.size, ESTIMATED)
        inside = surface.contains(q, b)
        if not inside.all() and not self.estimate:
            first = int(np.flatnonzero(~inside)[0])
            self._refuse(q[first], cores, b[first], surface.describe(self.device is None))
        median, p95, resident, rank = surface.at(q, b)
        return median, p95, resident, np.where(inside, rank, ESTIMATED)

    def _refuse(self, q: float, cores: float, b: float, known: str) -> None:
        if self.device is None:
            place = f"{q:g} cores"
        else:
            place = f"{q:g} SMs of {self.device_name}, {cores:g} host cores"
        raise PlanError(
            "profile-outside",
            f"{self.stage!r} has no point at {place}, batch {b:g} ({known})",
            where=self.stage,
            hint="measure it with ebrl profile, or allow estimates",
        )


def transfer(
    points: Sequence[Point], source: DeviceKind, target: DeviceKind, work: Work | None
) -> tuple[Point, ...]:
    """Points of one device as estimates for another, by the ratio of their rooflines.

    Without work() the less favourable of the ratios of arithmetic and of bandwidth counts.
    """
    grid = np.array(target.quotas())
    moved = []
    for point in points:
        assert point.device == source.name, (point.device, source.name)
        wanted = point.sms / source.sms * target.sms
        sms = int(grid[np.argmin(np.abs(grid - wanted))])
        if work is not None:
            here = float(roofline.seconds(work, source, point.sms, point.batch, point.cores))
            there = float(roofline.seconds(work, target, sms, point.batch, point.cores))
            factor = there / here if here > 0 else 1.0
        else:
            factor = max(
                source.bf16_flops / target.bf16_flops,
                source.memory_bytes_per_s / target.memory_bytes_per_s,
            ) * max(1.0, wanted / sms)
        moved.append(
            msgspec.structs.replace(
                point,
                device=target.name,
                sms=sms,
                median_s=point.median_s * factor,
                p95_s=point.p95_s * factor,
                source="estimated",
                samples=0,
                origin=f"{point.source} on {source.name}, carried over by roofline: {point.origin}",
            )
        )
    return profile.of(moved).points


def carried(
    stage: str, device: DeviceKind, points: Sequence[Point], work: Work | None
) -> tuple[Point, ...]:
    """Estimates for a device from the points of another one; none where no other device has any.

    The other is the kind of the catalogue whose points stand best, and of those the most numerous.
    """
    elsewhere: dict[str, list[Point]] = {}
    for point in points:
        if point.stage == stage and devices.lookup(point.device) is not None:
            elsewhere.setdefault(point.device, []).append(point)
    if not elsewhere:
        return ()

    def order(name: str) -> tuple[int, int, str]:
        found = elsewhere[name]
        return min(STANDING[point.source] for point in found), -len(found), name

    best = min(elsewhere, key=order)
    source = devices.find(best)
    named = [msgspec.structs.replace(point, device=source.name) for point in elsewhere[best]]
    return transfer(named, source, device, work)


def for_stage(
    stage: StageProgram,
    device: DeviceKind | None,
    points: Sequence[Point],
    *,
    estimate: bool = True,
) -> StageTime:
    """The best founded time of a stage on a device: its points, else another device's, else work.

    Raises PlanError `profile-missing` where nothing is known.
    """
    key = stage.profile_key or stage.name
    name = CPU if device is None else device.name
    mine = tuple(point for point in points if point.stage == key and point.device == name)
    if not mine and estimate and device is not None:
        mine = carried(key, device, points, stage.work)
    return StageTime(key, device, mine, work=stage.work, estimate=estimate)
