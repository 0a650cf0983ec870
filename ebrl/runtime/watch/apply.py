"""A switch, carried out while the run goes on.

In place: rows of the control table, affinity of running processes. By drain and respawn: the
simulate workers are retired first, each filling what it is filling; then the generate workers, who
had to answer them until then; what a worker could not fill in its time is thrown away and counted;
then others are started at the new places. The learner trains on meanwhile; where it is replaced
itself, which goes on beside that, it ends its update first, the first rank before the others, and
the next one takes up its state. Invariant: an environment has one simulate worker at any time, and
the ledger balances at every moment.
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
from ebrl.runtime.playing import Playing
from ebrl.runtime.posts import Phase, Post
from ebrl.runtime.quota.cores import Cores
from ebrl.runtime.quota.devices import Devices
from ebrl.runtime.quota.protocol import Quota
from ebrl.runtime.slab import Slab
from ebrl.runtime.supervise import Supervisor
from ebrl.runtime.watch.control import Settings, tell
from ebrl.runtime.watch.switch import Switch


class Host(Protocol):
    """What a switch asks of a run."""

    slab: Slab
    supervisor: Supervisor
    playing: Playing
    devices: Devices

    def boots(self, plan: Plan) -> tuple[Boot, ...]: ...
    def ring_all(self) -> None: ...
    def clear_meeting(self) -> None: ...


class Group(Enum):
    """Who is retired together."""

    SIMULATORS = "simulators"
    POLICIES = "policies"
    LEARNER = "the learner's first rank"
    RANKS = "its other ranks"


# The loop and the learner are replaced beside each other: roles, and in which order they go.
LANES = (
    {"simulate": (Group.SIMULATORS,), "generate": (Group.POLICIES,)},
    {"train": (Group.LEARNER, Group.RANKS)},
)


class _Lane:
    """Workers that are replaced one group after the other, then all at once by their followers."""

    def __init__(self, host: Host, plan: Plan, roles: tuple[str, ...], order: list[Group]) -> None:
        self._host, self._plan, self._roles, self._order = host, plan, roles, order
        self._leaving: list[Post] = []
        self._gone: list[Post] = []
        self._born: list[Post] | None = None
        self._next()

    def tick(self) -> bool:
        """Go on; says whether all followers are at work."""
        if self._born is not None:
            return all(post.phase is Phase.RUNNING for post in self._born)
        if all(post.phase is Phase.RETIRED for post in self._leaving):
            self._gone += self._leaving
            self._next()
        return False

    def _next(self) -> None:
        """Retire the next ones, or start their followers when nobody is left."""
        supervisor = self._host.supervisor
        self._leaving = []
        while self._order and not self._leaving:
            group = self._order.pop(0)
            self._leaving = [post for post in supervisor.posts if _group(post) is group]
        for post in self._leaving:
            supervisor.retire(post.name)
        if not self._leaving:
            self._start()

    def _start(self) -> None:
        host, supervisor = self._host, self._host.supervisor
        for post in self._gone:
            supervisor.dismiss(post)
            forget(host.slab, post.boot)
        if "train" in self._roles:
            host.clear_meeting()
        host.devices.take(self._plan)
        boots = [boot for boot in host.boots(self._plan) if boot.role in self._roles]
        boots.sort(key=lambda boot: boot.role == "simulate")  # a policy takes longer to be born
        for boot in boots:  # rows may have another owner now: nobody finds an old order
            forget(host.slab, boot)
        self._born = [supervisor.post(boot) for boot in boots]


class Applier:
    """Carries out one switch at a time; `tick` goes on with it."""

    def __init__(self, host: Host, cores: Iterable[int]) -> None:
        self._host = host
        self._cores = Cores(self._pid_of, cores)
        self._lanes: list[_Lane] = []
        self._began = 0.0
        self.respawn_s: float | None = None  # what the last respawn took, as measured

    @property
    def busy(self) -> bool:
        return bool(self._lanes)

    def apply(self, switch: Switch, plan: Plan) -> None:
        """Begin; what is in place is done when this returns."""
        assert not self.busy, "one switch at a time"
        host = self._host
        posts = {post.name: post for post in host.supervisor.posts}
        boots = {boot.name: boot for boot in host.boots(plan) if boot.role not in switch.roles}
        for name, settings in switch.settings.items():
            post = posts[name]
            post.boot = msgspec.structs.replace(
                post.boot,
                batch=settings.batch or post.boot.batch,
                threads=settings.threads or post.boot.threads,
                group=settings.group or post.boot.group,
            )
        for name, cores in switch.cores.items():
            posts[name].boot = msgspec.structs.replace(posts[name].boot, core_set=cores)
        for name, boot in boots.items():
            if posts[name].boot.emulation != boot.emulation:
                posts[name].boot = msgspec.structs.replace(
                    posts[name].boot, emulation=boot.emulation
                )
                host.playing.retell(posts[name].boot)
            elif name not in switch.settings:
                continue
            tell(host.slab, posts[name].boot.worker, switch.settings.get(name, Settings()))
        asked = [Quota(worker=name, cores=cores) for name, cores in switch.cores.items()]
        if asked:
            self._cores.apply(self._cores.realise(asked))
        host.ring_all()
        if switch.roles:
            self._began = time.monotonic()
            for lane in LANES:
                roles = tuple(role for role in lane if role in switch.roles)
                order = [group for role in roles for group in lane[role]]
                if order:
                    self._lanes.append(_Lane(host, plan, roles, order))

    def tick(self) -> None:
        """Go on with a respawn."""
        if not self._lanes:
            return
        self._lanes = [lane for lane in self._lanes if not lane.tick()]
        if not self._lanes:
            self.respawn_s = time.monotonic() - self._began

    def _pid_of(self, name: str) -> int | None:
        for post in self._host.supervisor.posts:
            if post.name == name and post.child is not None:
                return post.child.pid
        return None


def forget(slab: Slab, boot: Boot) -> None:
    """What was told to whoever had this row."""
    slab["control"][boot.worker, 1:] = 0
    slab["clock"][boot.worker, CLOCK_RETIRE] = 0


def _group(post: Post) -> Group:
    if post.boot.role == "train":
        return Group.LEARNER if post.boot.index == 0 else Group.RANKS
    return Group.SIMULATORS if post.boot.role == "simulate" else Group.POLICIES
