"""A switch, carried out while the run goes on.

In place: rows of the control table, affinity of running processes. By drain and respawn: the
simulate workers are retired first, each filling what it is filling; then the generate workers, who
had to answer them until then; what a worker could not fill in its time is thrown away and counted;
then others are started at the new places. The learner trains on meanwhile. Invariant: an
environment has one simulate worker at any time, and the ledger balances at every moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import Enum
from typing import Protocol

import msgspec

from ebrl.planner.layout import CLOCK_RETIRE
from ebrl.planner.plan import Plan
from ebrl.runtime.boot import Boot
from ebrl.runtime.posts import Phase, Post
from ebrl.runtime.quota.cores import Cores
from ebrl.runtime.quota.protocol import Quota
from ebrl.runtime.slab import Slab
from ebrl.runtime.supervise import Supervisor
from ebrl.runtime.watch.control import tell
from ebrl.runtime.watch.switch import Switch


class Host(Protocol):
    """What a switch asks of a run."""

    slab: Slab
    supervisor: Supervisor

    def boots(self, plan: Plan) -> tuple[Boot, ...]: ...
    def ring_all(self) -> None: ...


class Stage(Enum):
    """Of a respawn."""

    IDLE = "idle"
    SIMULATORS = "retiring simulators"
    POLICIES = "retiring policies"
    STARTING = "starting"


class Applier:
    """Carries out one switch at a time; `tick` goes on with it."""

    def __init__(self, host: Host, cores: Iterable[int]) -> None:
        self._host = host
        self._cores = Cores(self._pid_of, cores)
        self._stage = Stage.IDLE
        self._plan: Plan | None = None
        self._leaving: list[Post] = []
        self._began = 0.0
        self.respawn_s: float | None = None  # what the last respawn took, as measured

    @property
    def busy(self) -> bool:
        return self._stage is not Stage.IDLE

    def apply(self, switch: Switch, plan: Plan) -> None:
        """Begin; what is in place is done when this returns."""
        assert not self.busy, "one switch at a time"
        posts = {post.name: post for post in self._host.supervisor.posts}
        for name, settings in switch.settings.items():
            post = posts[name]
            post.boot = msgspec.structs.replace(
                post.boot,
                batch=settings.batch or post.boot.batch,
                threads=settings.threads or post.boot.threads,
                group=settings.group or post.boot.group,
            )
            tell(self._host.slab, post.boot.worker, settings)
        for name, cores in switch.cores.items():
            posts[name].boot = msgspec.structs.replace(posts[name].boot, core_set=cores)
        asked = [Quota(worker=name, cores=cores) for name, cores in switch.cores.items()]
        if asked:
            self._cores.apply(self._cores.realise(asked))
        self._host.ring_all()
        if switch.respawn:
            self._plan, self._began = plan, time.monotonic()
            self._retire("simulate", Stage.SIMULATORS)

    def tick(self) -> None:
        """Go on with a respawn."""
        if self._stage in (Stage.SIMULATORS, Stage.POLICIES):
            if any(post.phase is not Phase.RETIRED for post in self._leaving):
                return
            if self._stage is Stage.SIMULATORS:
                self._gone = self._leaving
                self._retire("generate", Stage.POLICIES)
                return
            self._start()
        elif self._stage is Stage.STARTING and all(
            post.phase is Phase.RUNNING for post in self._leaving
        ):
            self.respawn_s = time.monotonic() - self._began
            self._stage = Stage.IDLE

    def _retire(self, role: str, stage: Stage) -> None:
        supervisor = self._host.supervisor
        self._leaving = [post for post in supervisor.posts if post.boot.role == role]
        for post in self._leaving:
            supervisor.retire(post.name)
        self._stage = stage

    def _start(self) -> None:
        assert self._plan is not None
        host, supervisor = self._host, self._host.supervisor
        for post in (*self._gone, *self._leaving):
            supervisor.dismiss(post)
            host.slab["control"][post.boot.worker, 1:] = 0
            host.slab["clock"][post.boot.worker, CLOCK_RETIRE] = 0
        boots = [boot for boot in host.boots(self._plan) if boot.role != "train"]
        boots.sort(key=lambda boot: boot.role != "simulate")
        for boot in boots:  # rows may have another owner now: nobody finds an old order
            host.slab["control"][boot.worker, 1:] = 0
            host.slab["clock"][boot.worker, CLOCK_RETIRE] = 0
        self._leaving = [supervisor.post(boot) for boot in boots]
        self._stage = Stage.STARTING

    def _pid_of(self, name: str) -> int | None:
        for post in self._host.supervisor.posts:
            if post.name == name and post.child is not None:
                return post.child.pid
        return None
