"""Everything the model may choose from: the options and patterns of each class of nodes.

Invariant: what is not in the space is not considered, and the space is made from the inputs alone, so
"optimal" always means optimal over this space.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebrl.planner.demand import Demand
from ebrl.planner.hardware import NodeClass
from ebrl.planner.learning import Mode, Schedule
from ebrl.planner.options import Option
from ebrl.planner.plan import Pin
from ebrl.planner.request import Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """Ways to share one device: row i has at most one option of each stage (`members`, −1 for none).

    `slowdown` is the interference factor of a row's stages. In a `shared` row the stages take turns on
    the whole device, so their busy shares add up to at most one; in the others each has its own SMs.
    """

    members: NDArray[np.int32]  # [patterns, stages], indices into the class's device options
    slowdown: NDArray[np.float64]  # [patterns]
    shared: NDArray[np.bool_]  # [patterns]

    def __len__(self) -> int:
        return len(self.slowdown)


NO_PATTERNS = Patterns(
    members=np.zeros((0, 0), np.int32), slowdown=np.zeros(0), shared=np.zeros(0, np.bool_)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSpace:
    """One class of nodes: options on cores, options on its devices, patterns of the latter."""

    node: NodeClass
    on_cores: tuple[Option, ...]
    on_device: tuple[Option, ...] = ()
    patterns: Patterns = NO_PATTERNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What one solve chooses from."""

    demands: tuple[Demand, ...]
    classes: tuple[ClassSpace, ...]
    mode: Mode | None
    schedule: Schedule
    environments: tuple[int, int]
    groups: int
    in_flight: float  # environments that staleness lets be on their way, at most
    pins: tuple[Pin, ...] = ()
    objective: Objective = "throughput"
    at_least: float | None = None

    def demand(self, name: str) -> Demand:
        for each in self.demands:
            if each.name == name:
                return each
        raise KeyError(name)

    @property
    def learner(self) -> Demand | None:
        return next((each for each in self.demands if each.learns), None)

    def apart(self, option: Option) -> bool:
        """Does it work in a phase of its own, when nothing else does (synchronous learners)?"""
        return self.schedule == "synchronous" and self.demand(option.stage).learns


SHARED_CORES = 8  # up to here a node's cores are one pool; above, a busy replica may own some
