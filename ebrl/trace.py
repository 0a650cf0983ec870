"""Timelines in Chrome's trace format, which opens in Perfetto (ui.perfetto.dev): predicted ones
from the simulation, measured ones from a run, both in one file.

The vocabulary: a *process* is a node (or a role on it), a *thread* is a replica, "generate 0"; a
*span* is something that it did, from when to when; a *counter* is a number over time (a queue, a
staleness); a *mark* is a moment. Times go in as seconds, and out as microseconds. Invariant: equal
events, in equal order, give equal bytes.

Noting costs one tuple an event; names become numbers when the file is written. Times are rounded
to nanoseconds so that a span that ends when the next one begins does not overlap it in the file
either: Perfetto drops what overlaps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ebrl.errors import RunError

Arguments = Mapping[str, float | int | str]
# ("X", process, thread, name, begin_s, duration_s, arguments), the same with "C" and "i"
Event = tuple[str, str, str, str, float, float, Arguments | None]

SPAN, COUNTER, MARK = "X", "C", "i"
KINDS = (SPAN, COUNTER, MARK)
HAIR_NS = 0.1  # more than a sum of two times in seconds is off by


class Trace:
    """A list of events that grows."""

    __slots__ = ("events",)

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = list(events)

    def span(
        self,
        process: str,
        thread: str,
        name: str,
        begin_s: float,
        duration_s: float,
        arguments: Arguments | None = None,
    ) -> None:
        """Something that `thread` of `process` did."""
        self.events.append((SPAN, process, thread, name, begin_s, duration_s, arguments))

    def counter(self, process: str, name: str, at_s: float, values: Arguments) -> None:
        """Numbers that hold from this moment on, drawn as one stacked curve."""
        self.events.append((COUNTER, process, "", name, at_s, 0.0, values))

    def mark(
        self, process: str, thread: str, name: str, at_s: float, arguments: Arguments | None = None
    ) -> None:
        """A moment: a new version, a crash."""
        self.events.append((MARK, process, thread, name, at_s, 0.0, arguments))

    def write(self, path: Path) -> None:
        """The file for Perfetto."""
        write(path, self.events)


def merge(lanes: Mapping[str, Trace]) -> Trace:
    """Lanes one under the other: processes of each are named after it, "predicted: a100x8-0"."""
    found = Trace()
    for lane, trace in lanes.items():
        found.events.extend((event[0], f"{lane}: {event[1]}", *event[2:]) for event in trace.events)
    return found


def shifted(trace: Trace, by_s: float) -> Trace:
    """The same, so much later: a lane's clock put on another's."""
    return Trace((*e[:4], e[4] + by_s, *e[5:]) for e in trace.events)


def write(path: Path, events: Iterable[Event]) -> None:
    """Write a trace file, event by event: it may be larger than what one wants to hold twice.

    Raises RunError where it cannot be written.
    """
    encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
    try:
        with path.open("w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit":"ms","traceEvents":[')
            separator = "\n"
            for row in rows(events):
                file.write(separator + encode(row))
                separator = ",\n"
            file.write("\n]}\n")
    except OSError as error:
        raise _unwritable(path, error) from error


def check(path: Path) -> None:
    """Raises RunError where a trace could not be written there: better before a run than after."""
    try:
        path.open("ab").close()
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> RunError:
    return RunError(
        "trace-unwritable",
        f"cannot write the trace: {error.strerror}",
        where=str(path),
        hint="name another file with --trace",
    )


def rows(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Chrome's own form, names first: processes in order of appearance, threads by name."""
    events = list(events)
    threads: dict[str, dict[str, int]] = {}
    for kind, process, thread, *_ in events:
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is not one of {KINDS}")
        threads.setdefault(process, {}).setdefault(thread, 0)
    pids = {process: number for number, process in enumerate(threads, 1)}
    for process, names in threads.items():
        pid = pids[process]
        yield _named("process_name", pid, 0, {"name": process})
        yield _named("process_sort_index", pid, 0, {"sort_index": pid})
        for tid, thread in enumerate(sorted(names, key=_natural), 1):
            names[thread] = tid
            if thread:
                yield _named("thread_name", pid, tid, {"name": thread})
                yield _named("thread_sort_index", pid, tid, {"sort_index": tid})
    for kind, process, thread, name, begin, duration, arguments in events:
        begin_ns = round(begin * 1e9)
        row: dict[str, Any] = {
            "ph": kind,
            "pid": pids[process],
            "tid": threads[process][thread],
            "name": name,
            "ts": begin_ns / 1000,  # in microseconds
        }
        if kind == SPAN:
            end_ns = round((begin + duration) * 1e9 - HAIR_NS)
            row["dur"] = max(0, end_ns - begin_ns) / 1000
        elif kind == MARK:
            row["s"] = "t" if thread else "p"
        if arguments is not None:
            row["args"] = dict(arguments)
        yield row


def _named(what: str, pid: int, tid: int, arguments: Arguments) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": dict(arguments)}


def _natural(name: str) -> list[tuple[int, str]]:
    """ "generate 2" before "generate 10"."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
