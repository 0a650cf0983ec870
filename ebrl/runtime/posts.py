"""A post: one worker's place in a run, whoever holds it now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum

from ebrl.runtime.boot import Boot
from ebrl.runtime.processes import Child
from ebrl.runtime.strikes import Strikes


class Phase(Enum):
    """Of a post; see `supervise`."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"  # killed, not yet gone
    CLEARING = "clearing"  # gone; what it held is being taken back
    RESTING = "resting"  # until it is tried again
    RETIRED = "retired"


@dataclass(slots=True)
class Post:
    """Its row in the slab, its environments and its bell stay; its child may change."""

    boot: Boot
    strikes: Strikes
    child: Child | None = None
    phase: Phase = Phase.RESTING
    since: float = 0.0  # it is in this phase
    was_ready: bool = False  # anyone at this post ever
    start_s: float = 0.0  # the slowest start so far
    retiring: bool = False
    rest_until: float = 0.0
    marked_ns: int = 0  # when its environments were taken out of service
    failed_at: float | None = None  # of a fault that is not mended yet
    stopped_since: float | None = None
    resident_at_ready: int = 0

    @property
    def name(self) -> str:
        return self.boot.name

    @property
    def what(self) -> str:
        """The worker, as a message names it."""
        if self.boot.role == "train":
            return f"`{self.name}`"
        return f"`{self.name}` (environments {self.boot.first}–{self.boot.last - 1})"

    def turn(self, phase: Phase) -> None:
        self.phase, self.since = phase, time.monotonic()
