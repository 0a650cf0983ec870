"""Three ways to time work, one interface: what a batch costs the thing that it runs on.

- On one core: CPU seconds of the process. They mean the same when others share the core.
- On several cores: the wall, less what the calling thread spent waiting for a core, so that a
  neighbour who takes a core is not booked on the stage.
- On a device: events on its stream. The host's time is not in them.

Invariant: a stopwatch measures the stage, never who else is running; that is told by comparing
measurements made alone with measurements made together.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol

from ebrl.runtime.quota.driver import Driver


class Stopwatch(Protocol):
    """`start()`, the work, `stop()` → seconds."""

    def start(self) -> None: ...

    def stop(self) -> float: ...


class CpuSeconds:
    """All threads of this process, whoever else is running."""

    def __init__(self) -> None:
        self._begin = 0

    def start(self) -> None:
        self._begin = time.process_time_ns()

    def stop(self) -> float:
        return (time.process_time_ns() - self._begin) / 1e9


class UnqueuedWall:
    """The wall, less the time that this thread was ready to run and did not get a core."""

    def __init__(self) -> None:
        self._begin = 0
        self._waited = 0

    def start(self) -> None:
        self._waited = waited_ns()
        self._begin = time.perf_counter_ns()

    def stop(self) -> float:
        wall = time.perf_counter_ns() - self._begin
        return max(1, wall - (waited_ns() - self._waited)) / 1e9


class DeviceSeconds:
    """Between two events on `stream` (a raw handle; 0 is the default stream)."""

    def __init__(self, driver: Driver, stream: Callable[[], int]) -> None:
        self._driver, self._stream = driver, stream
        self._begin, self._end = driver.event_create(), driver.event_create()

    def start(self) -> None:
        self._driver.event_record(self._begin, self._stream())

    def stop(self) -> float:
        self._driver.event_record(self._end, self._stream())
        self._driver.event_synchronize(self._end)
        return self._driver.event_elapsed_ms(self._begin, self._end) / 1e3

    def close(self) -> None:
        for event in (self._begin, self._end):
            self._driver.event_destroy(event)


def waited_ns() -> int:
    """Nanoseconds that the calling thread has waited on a run queue, ever; 0 where not told."""
    try:
        fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return 0
    try:
        return int(os.read(fd, 128).split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    finally:
        os.close(fd)
