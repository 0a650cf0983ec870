"""Writes down who did what when, for a trace and for pictures. A simulation without a tape pays
nothing for it but one comparison a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebrl.trace import Trace

if TYPE_CHECKING:
    from ebrl.planner.foresight.learner import Learner
    from ebrl.planner.foresight.loop import Replica

COUNTED_EVERY_S = 0.1  # queues, at most


class Tape:
    """A trace in the making. `names` are those of the stages, by number."""

    def __init__(self, names: list[str], learner: str) -> None:
        self.trace = Trace()
        self._names = names
        self._learner = learner
        self._begun: dict[Replica, float] = {}
        self._counted: dict[str, float] = {}

    def begin(self, replica: Replica, now: float) -> None:
        self._begun[replica] = now

    def end(self, replica: Replica, now: float) -> None:
        begun = self._begun.pop(replica)
        name = self._names[replica.stage]
        self.trace.span(
            replica.node, f"{name} {replica.index}", name, begun, now - begun,
            {"items": len(replica.taken)},
        )  # fmt: skip
        self._count_queues(replica, now)

    def _count_queues(self, replica: Replica, now: float) -> None:
        """How many wait at this stage's replicas on this node."""
        name = f"{self._names[replica.stage]} queue"
        key = f"{replica.node}/{name}"
        if now - self._counted.get(key, -1.0) < COUNTED_EVERY_S:
            return
        self._counted[key] = now
        waiting = sum(
            len(each.queue) for each in replica.world.of_stage_on(replica.stage, replica.node)
        )
        self.trace.counter(replica.node, name, now, {"environments": waiting})

    def update_begins(self, learner: Learner, now: float) -> None:
        self._since = now
        batch = learner.batch_staleness()
        self.trace.counter("cluster", "staleness", now, {"versions": round(batch, 6)})
        self._ready(learner, now)

    def compute_ends(self, learner: Learner, now: float) -> None:
        for rank in learner.ranks:
            self.trace.span(
                rank.node, f"{self._learner} {rank.index}", self._learner,
                self._since, now - self._since, {"version": learner.version + 1},
            )  # fmt: skip
        self._since = now

    def published(self, learner: Learner, now: float) -> None:
        for rank in learner.ranks[:1]:
            self.trace.span(
                rank.node, f"{self._learner} {rank.index}", "reduce and publish",
                self._since, now - self._since, {"version": learner.version},
            )  # fmt: skip
        self.trace.mark(
            "cluster", "", "version", now,
            {"version": learner.version, "trained": learner.trained},
        )  # fmt: skip
        self._ready(learner, now)

    def _ready(self, learner: Learner, now: float) -> None:
        world = learner.world
        self.trace.counter("cluster", "segments ready", now, {"segments": len(world.ready)})
        self.trace.counter("cluster", "environments parked", now, {"environments": world.parked})
