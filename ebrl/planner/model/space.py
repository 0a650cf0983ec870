"""Everything the model may choose from: options and patterns of each class of nodes.

Invariant: what is not in the space is not considered, and the space is made from the inputs
alone, so "optimal" always means optimal over this space.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ebrl.planner.hardware import NodeClass
from ebrl.planner.model.demand import Demand
from ebrl.planner.model.interference import Slowdowns
from ebrl.planner.model.learning import Mode, Schedule
from ebrl.planner.model.options import Option
from ebrl.planner.model.request import Objective
from ebrl.planner.plan import Pin

SHARED_CORES = 8  # up to here a node's cores are one pool; above, a busy replica may own some


class Pattern(msgspec.Struct, frozen=True, order=True):
    """A way to share one device: at most one option of each stage (`members` index the class's
    device options).

    `slowdown` is the interference factor. In a `turns` pattern the stages take turns on the whole
    device, so their busy shares add up to at most 1/slowdown; in the others each has its own SMs.
    """

    members: tuple[int, ...]
    slowdown: float = 1.0
    turns: bool = False


class ClassSpace(msgspec.Struct, frozen=True, kw_only=True):
    """One class of nodes: options on cores, options on its devices, patterns of the latter."""

    node: NodeClass
    on_cores: tuple[Option, ...]
    on_device: tuple[Option, ...] = ()
    patterns: tuple[Pattern, ...] = ()


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """What one solve chooses from. `in_flight`: environments that staleness lets be under way."""

    demands: tuple[Demand, ...]
    classes: tuple[ClassSpace, ...]
    mode: Mode | None
    schedule: Schedule
    environments: tuple[int, int]
    groups: int
    in_flight: float
    pins: tuple[Pin, ...] = ()
    objective: Objective = "throughput"
    at_least: float | None = None
    slowdowns: Slowdowns = Slowdowns()
    numbers: dict[str, int] = {}  # of the stages, by name

    def __post_init__(self) -> None:
        numbers = {demand.name: s for s, demand in enumerate(self.demands)}
        msgspec.structs.force_setattr(self, "numbers", numbers)

    def index(self, stage: str) -> int:
        return self.numbers[stage]

    def demand(self, stage: str) -> Demand:
        return self.demands[self.index(stage)]

    @property
    def learner(self) -> Demand | None:
        return next((each for each in self.demands if each.learns), None)

    def apart(self, option: Option) -> bool:
        """Does it work in a phase of its own, when nothing else does (a synchronous learner)?"""
        return self.schedule == "synchronous" and self.demand(option.stage).learns

    def slowdown(self, options: Sequence[Option], *, turns: bool = False) -> float:
        """Interference of what works on one device at the same time."""
        stages = frozenset(option.stage for option in options if not self.apart(option))
        return self.slowdowns.of(stages, turns=turns)
