"""The state of a simulation: environments, segments, queues, versions; and what happens to an
environment when a step is done.

Invariant: what is produced is trained, thrown away, or in flight, as in the runtime's ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebrl.planner.foresight.draws import Lengths
from ebrl.planner.foresight.learner import Learner
from ebrl.planner.foresight.loop import Gate, Policy, Replica, Simulator
from ebrl.planner.foresight.segments import Admission, Ready, Segment
from ebrl.planner.foresight.sharing import Clock

if TYPE_CHECKING:
    from ebrl.planner.foresight.beyond_loop import Service
    from ebrl.planner.foresight.tape import Tape


class Link:
    """A node's way to the learner's ranks elsewhere: one segment after another."""

    __slots__ = ("_free_at", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds  # of one segment
        self._free_at = 0.0

    def arrives(self, now: float) -> float:
        self._free_at = max(now, self._free_at) + self.seconds
        return self._free_at


class World:
    """`first[e]` answers environment e after each decision, `home[e]` holds it."""

    def __init__(
        self,
        clock: Clock,
        admission: Admission,
        *,
        environments: int,
        horizon: int,
        chunk: int,
        lengths: list[Lengths],
    ) -> None:
        self.clock, self.admission = clock, admission
        self.horizon, self.chunk = horizon, chunk
        self.tape: Tape | None = None
        self.learner: Learner | None = None
        self.services: list[Service] = []
        self.replicas: list[Replica] = []
        self.first: list[Policy] = []
        self.home: list[Simulator] = []
        self.gates: list[Gate] = []  # by environment; none where each goes by itself
        self.links: dict[str, Link] = {}
        self.ready = Ready()
        self.version = 0
        self.produced = 0
        self.parked_s = 0.0  # all together
        self.lengths = lengths
        self.since = [0.0] * environments  # it waits at its replica
        self.answered = [0] * environments  # version of its last answer
        self.episode_left = [each.next() for each in lengths]
        self._row = [0] * environments
        self._places: dict[tuple[int, str], list[Replica]] = {}
        self._segment: list[Segment | None] = [None] * environments

    @property
    def updates(self) -> list[tuple[float, int]]:
        """When each ended, and the steps trained till then."""
        return self.learner.updates if self.learner is not None else []

    def of_stage_on(self, stage: int, node: str) -> list[Replica]:
        """Replicas of a stage on a node."""
        if not self._places:
            for each in self.replicas:
                self._places.setdefault((each.stage, each.node), []).append(each)
        return self._places[stage, node]

    def parked_s_until(self, now: float) -> float:
        """Time that environments were parked, all together, those still parked included."""
        return self.parked_s + sum(now - since for _, since in self.admission.parked)

    def begin(self) -> None:
        """Everything starts at once, as in the first moment of a run."""
        self.admission.parked.extend((env, 0.0) for env in range(len(self.since)))
        self.open(0.0)

    def stepped(self, now: float, envs: list[int]) -> int:
        """A decision of each of these was carried out; says how many go on at once."""
        horizon, chunk, rows, left = self.horizon, self.chunk, self._row, self.episode_left
        on = 0
        for env in envs:
            segment = self._segment[env]
            assert segment is not None
            steps = chunk
            row = rows[env] + 1
            if left[env] <= chunk:  # the episode ends, and its last observation takes a row
                steps = left[env]
                left[env] = self.lengths[env].next()
                row += 1
            else:
                left[env] -= chunk
            self.produced += steps
            segment.add(self.answered[env], steps)
            if row < horizon:
                rows[env] = row
                self._on(now, env)
                on += 1
                continue
            opened = self.admission.finished()
            if opened:
                self.open(now)
            following = self.admission.start(env)
            if following is None:
                self._segment[env] = None
                self.admission.parked.append((env, now))
                if self.gates:
                    self.gates[env].park(now)
            else:
                self._segment[env], rows[env] = following, 0
                self._on(now, env)
                on += 1
            self._full(now, segment)
        return on

    def _on(self, now: float, env: int) -> None:
        """To its policy, without a ring."""
        if self.gates:
            self.gates[env].arrive(now, env)
        else:
            self.since[env] = now
            self.first[env].queue.append(env)

    def open(self, now: float) -> None:
        """Parked environments start where they may."""
        parked = self.admission.parked
        rung: dict[Policy, None] = {}
        gated: list[int] = []
        for _ in range(len(parked)):
            env, since = parked[0]
            segment = self.admission.start(env)
            if segment is None:
                break
            parked.popleft()
            self.parked_s += now - since
            self._segment[env], self._row[env] = segment, 0
            if self.gates:
                gated.append(env)
            else:
                self._on(now, env)
                rung[self.first[env]] = None
        for env in gated:
            self.gates[env].arrive(now, env, parked=True)
        for policy in rung:
            policy.begin(now)

    def _full(self, now: float, segment: Segment) -> None:
        """A segment is full: what lies between it and the learner begins."""
        if self.services:
            self.services[0].put(now, segment)
        else:
            self.send(now, segment)

    def send(self, now: float, segment: Segment) -> None:
        """To the learner, over the network where it is elsewhere."""
        link = self.links.get(self.home[segment.env].node)
        if link is None:
            self.arrived(now, segment)
        else:
            self.clock.at(link.arrives(now), lambda when: self.arrived(when, segment))

    def arrived(self, now: float, segment: Segment) -> None:
        self.ready.put(segment, now)
        if self.learner is not None:
            self.learner.look(now)

    def new_version(self, now: float, version: int) -> None:
        self.version = version
        self.admission.published(version)
        self.open(now)
