"""The state of a simulation: environments, segments, queues, versions; and what happens to an
environment when a step is done.

Invariant: what is produced is trained, thrown away, or in flight, as in the runtime's ledger.
"""

from __future__ import annotations

from collections import deque
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
        self.openings = 0  # times that admission may have begun to say yes
        self._homes: list[Simulator] = []
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
        still = (now - since for home in self._homes for _, since in home.parked)
        return self.parked_s + sum(still)

    @property
    def parked(self) -> int:
        """Environments that wait for admission."""
        return sum(len(home.parked) for home in self._homes)

    def begin(self) -> None:
        """Everything starts at once, as in the first moment of a run."""
        self._homes = list(dict.fromkeys(self.home))
        for env, home in enumerate(self.home):
            home.parked.append((env, 0.0))
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
                self.home[env].parked.append((env, now))
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
        """Admission says yes again. Simulators with nothing to do look at once, and take turns in
        starting what they parked, as processes that race for a lock; the others look when they
        have swept through what they have."""
        self.openings += 1
        idle = deque(home for home in self._homes if home.parked and not home.working)
        started: list[int] = []
        while idle:
            home = idle.popleft()
            env = self._start_parked(now, home)
            if env is not None:
                started.append(env)
                if home.parked:
                    idle.append(home)
            else:
                home.seen = self.openings
                if not self.admission.by_environment:
                    for each in idle:
                        each.seen = self.openings
                    break
        self._go_on(now, started)

    def look(self, now: float, home: Simulator) -> None:
        """A simulator begins a sweep: it starts what it parked, if anything has changed."""
        home.seen = self.openings
        started: list[int] = []
        for _ in range(len(home.parked)):
            env = self._start_parked(now, home)
            if env is not None:
                started.append(env)
            elif not self.admission.by_environment:
                break
        self._go_on(now, started)

    def _start_parked(self, now: float, home: Simulator) -> int | None:
        """The first environment that this simulator parked, if it may start; else it is last."""
        env, since = home.parked.popleft()
        segment = self.admission.start(env)
        if segment is None:
            if self.admission.by_environment:
                home.parked.append((env, since))
            else:
                home.parked.appendleft((env, since))
            return None
        self.parked_s += now - since
        self._segment[env], self._row[env] = segment, 0
        return env

    def _go_on(self, now: float, started: list[int]) -> None:
        rung: dict[Policy, None] = {}
        for env in started:
            if self.gates:
                self.gates[env].arrive(now, env, parked=True)
            else:
                self._on(now, env)
                rung[self.first[env]] = None
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

    def ageing(self, version: int) -> bool:
        """Is anything being filled, and begun, whose oldest step is of this version or before?"""
        return any(
            segment is not None and segment.runs and segment.oldest <= version
            for segment in self._segment
        )

    def new_version(self, now: float, version: int) -> None:
        self.version = version
        self.admission.published(version)
        self.open(now)
