"""Who gets how much of what several share: cores that are promised twice, a device used in turns.

Both are processor sharing with one virtual clock (Parekh and Gallager's generalised processor
sharing): a job of work w with weight φ ends when the clock has gone w/φ further. On cores every
job goes at min(1, cores ÷ cores wanted); on a device in turns each goes at its weight's part of
all weights at work, where the weights are the busy shares that the plan gave. Invariant: what is
shared is never idle while there is work, and never does more than it can.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Done = Callable[[float], None]


class Clock:
    """The events of a simulation, in order of time, then of being made."""

    __slots__ = ("count", "heap", "now")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Done]] = []
        self.count = 0
        self.now = 0.0

    def at(self, when: float, what: Done) -> None:
        self.count += 1
        heapq.heappush(self.heap, (when, self.count, what))


class Shared:
    """A resource that is shared by whoever works; see `Cores` and `Turns`."""

    __slots__ = ("_clock", "_jobs", "_made", "_rate", "_since", "_token", "_virtual", "wanted")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: list[tuple[float, int, float, Done]] = []  # virtual end, order, wish, done
        self._made = 0
        self._virtual = 0.0
        self._since = 0.0
        self._rate = 0.0
        self._token = 0
        self.wanted = 0.0  # by all jobs at work

    def start(self, now: float, work: float, wish: float, done: Done) -> None:
        """`work` seconds alone; `wish` cores, or weight."""
        self._advance(now)
        self._made += 1
        heapq.heappush(
            self._jobs, (self._virtual + self._length(work, wish), self._made, wish, done)
        )
        self.wanted += wish
        self._again(now)

    def _length(self, work: float, wish: float) -> float:
        raise NotImplementedError

    def _speed(self) -> float:
        raise NotImplementedError

    def _advance(self, now: float) -> None:
        self._virtual += (now - self._since) * self._rate
        self._since = now

    def _again(self, now: float) -> None:
        """The rate may have changed: say anew when the next job ends."""
        self._token += 1
        if not self._jobs:
            self._rate, self.wanted = 0.0, 0.0
            return
        self._rate = self._speed()
        if self._rate <= 0:
            return
        token = self._token
        ahead = max(0.0, (self._jobs[0][0] - self._virtual) / self._rate)
        self._clock.at(now + ahead, lambda when: self._end(when, token))

    def _end(self, now: float, token: int) -> None:
        if token != self._token:
            return
        self._advance(now)
        end, _, wish, done = heapq.heappop(self._jobs)
        self._virtual = max(self._virtual, end)
        self.wanted -= wish
        self._again(now)
        done(now)


class Cores(Shared):
    """A set of cores that all who are at work may want more of than there are."""

    __slots__ = ("_devices", "_held", "capacity")

    def __init__(self, clock: Clock, capacity: float) -> None:
        super().__init__(clock)
        self.capacity = capacity
        self._held = 0.0  # by the host sides of devices at work
        self._devices: list[Turns] = []

    def join(self, device: Turns) -> None:
        """The host side of a device that is used in turns runs here."""
        self._devices.append(device)

    def device_changed(self, now: float, cores: float) -> None:
        """A device began to work, or ended: its host side wants so many cores more."""
        self._advance(now)
        self._held += cores
        self._again(now)

    def _length(self, work: float, wish: float) -> float:
        del wish
        return work

    def _speed(self) -> float:
        wanted = self.wanted + self._held
        return self.capacity / wanted if wanted > self.capacity else 1.0

    def _again(self, now: float) -> None:
        super()._again(now)
        for device in self._devices:
            device.host_speed(now, self._speed())


class Turns(Shared):
    """A device whose stages take turns."""

    __slots__ = ("_factor", "cores", "host", "working")

    def __init__(self, clock: Clock, cores: Cores | None, host: float) -> None:
        super().__init__(clock)
        self.cores = cores
        self.host = host  # cores that it wants while it works
        self.working = False
        self._factor = 1.0
        if cores is not None:
            cores.join(self)

    def _length(self, work: float, wish: float) -> float:
        return work / wish

    def _speed(self) -> float:
        return self._factor / self.wanted

    def _again(self, now: float) -> None:
        super()._again(now)
        if self.cores is not None and self.working is not bool(self._jobs):
            self.working = bool(self._jobs)
            self.cores.device_changed(now, self.host if self.working else -self.host)

    def host_speed(self, now: float, factor: float) -> None:
        """Its host side goes so fast now."""
        if factor != self._factor:
            self._advance(now)
            self._factor = factor
            if self._jobs:
                super()._again(now)
