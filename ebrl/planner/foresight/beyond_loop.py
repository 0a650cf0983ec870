"""A stage between the loop and the learner, such as a reward model: its replicas, wherever they
are, work off the items of full segments in order.

Invariant: a segment goes on when the last of its items is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ebrl.planner.foresight.draws import Draws
from ebrl.planner.foresight.loop import Replica
from ebrl.planner.foresight.segments import Segment
from ebrl.planner.foresight.sharing import Shared

if TYPE_CHECKING:
    from ebrl.planner.foresight.world import World

Onward = Callable[[float, Segment], None]


class Worker(Replica):
    """One replica. What it takes are items, not environments."""

    __slots__ = ("parts", "service")

    def __init__(self, service: Service, *given: object, **rest: object) -> None:
        super().__init__(*given, **rest)  # type: ignore[arg-type]
        self.service = service
        self.parts: list[tuple[Job, int]] = []

    def begin(self, now: float) -> None:
        if self.working:
            return
        count = self.service.hand(self)
        if count:
            self.working = True
            self.taken = [-1] * count
            self._work(now, self.times[count] * self._factor(1))

    def deliver(self, now: float, taken: list[int]) -> None:
        del taken
        parts, self.parts = self.parts, []
        self.service.done(now, parts)


class Job:
    """A segment, and how many of its items are not done."""

    __slots__ = ("left", "segment")

    def __init__(self, segment: Segment, items: int) -> None:
        self.segment, self.left = segment, items


class Service:
    """All replicas of the stage. `items`: of one environment step."""

    def __init__(self, items: float, onward: Onward) -> None:
        self.items, self.onward = items, onward
        self.workers: list[Worker] = []
        self._jobs: deque[tuple[Job, int]] = deque()  # items still to be handed out
        self._owed = 0.0

    def add(
        self,
        world: World,
        stage: int,
        index: int,
        node: str,
        *,
        batch: int,
        times: list[float],
        draws: Draws,
        shared: Shared | None,
        wish: float,
    ) -> None:
        worker = Worker(
            self, world, stage, index, node,
            batch=batch, times=times, calls=1.0, draws=draws, shared=shared, wish=wish,
        )  # fmt: skip
        self.workers.append(worker)
        world.replicas.append(worker)

    def put(self, now: float, segment: Segment) -> None:
        self._owed += self.items * segment.steps
        items = int(self._owed + 1e-9)
        self._owed -= items
        if not items:
            self.onward(now, segment)
            return
        self._jobs.append((Job(segment, items), items))
        for worker in self.workers:
            if not worker.working:
                worker.begin(now)
                break

    def hand(self, worker: Worker) -> int:
        """Up to a batch of items for this replica; how many there are."""
        count = 0
        while self._jobs and count < worker.batch:
            job, waiting = self._jobs.popleft()
            part = min(waiting, worker.batch - count)
            count += part
            worker.parts.append((job, part))
            if waiting > part:
                self._jobs.appendleft((job, waiting - part))
        return count

    def done(self, now: float, parts: list[tuple[Job, int]]) -> None:
        for job, part in parts:
            job.left -= part
            if not job.left:
                self.onward(now, job.segment)
