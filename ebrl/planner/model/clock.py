"""Stage times for the model: one place that asks the profile, whatever the stage and the hardware.

Invariant: a time that is not measured or published is marked estimated wherever it goes.
"""

from __future__ import annotations

import msgspec
from numpy.typing import ArrayLike

from ebrl.errors import PlanError
from ebrl.frontend.program import Program, StageProgram
from ebrl.planner.hardware import DeviceKind
from ebrl.planner.interpolate import Estimate, StageTime, for_stage
from ebrl.planner.profile import CPU, Point


class Clock(msgspec.Struct, frozen=True):
    """Times of every stage of a program on every kind of hardware, from these points."""

    program: Program
    points: tuple[Point, ...]

    def of(self, stage: StageProgram, device: DeviceKind | None) -> StageTime | None:
        """None where the stage does not run, or nothing is known and nothing can be estimated."""
        if ("cpu" if device is None else "gpu") not in stage.runs_on:
            return None
        try:
            return for_stage(self._known(stage), device, self.points)
        except PlanError as error:
            if error.code != "profile-missing":
                raise
            return None

    def points_of(self, stage: StageProgram, device: DeviceKind | None) -> tuple[Point, ...]:
        """The stage's own points on that hardware."""
        key = self._known(stage).profile_key
        place = CPU if device is None else device.name
        return tuple(p for p in self.points if p.stage == key and p.device == place)

    def _known(self, stage: StageProgram) -> StageProgram:
        """Under the key that the profile knows: its profile key, else its name in the graph."""
        key = stage.profile_key
        if not key or all(point.stage != key for point in self.points):
            key = stage.name
        return msgspec.structs.replace(stage, profile_key=key)


def ask(clock: StageTime, quota: ArrayLike, cores: ArrayLike, batch: ArrayLike) -> Estimate | None:
    """The estimate, or None where the profile refuses to answer."""
    try:
        return clock.seconds(quota, cores, batch)
    except PlanError as error:
        if error.code.startswith("profile-"):
            return None
        raise


def weakest(sources: list[str]) -> str:
    """measured < published < estimated: what a sum of several times may be called."""
    order = ("measured", "published", "estimated")
    return order[max((order.index(source) for source in sources), default=2)]
