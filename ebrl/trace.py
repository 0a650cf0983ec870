"""Timelines in Chrome's trace format, which opens in Perfetto (ui.perfetto.dev): predicted ones
from the simulation, measured ones from a run, both in one file.

The vocabulary: a *process* is a node (or a role on it), a *thread* is a replica, "generate 0"; a
*span* is something that it did, from when to when; a *counter* is a number over time (a queue, a
staleness); a *mark* is a moment. Times go in as seconds, and out as microseconds. Invariant: equal
events, in equal order, give equal bytes.

Writing costs one tuple an event; names become numbers when the file is written. A worker keeps a
`Trace` of its own and dumps its events; whoever supervises it loads and merges them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Arguments = Mapping[str, float | int | str]
# ("X", process, thread, name, begin_s, duration_s, arguments), the same with "C" and "i"
Event = tuple[str, str, str, str, float, float, Arguments | None]

SPAN, COUNTER, MARK = "X", "C", "i"
KINDS = (SPAN, COUNTER, MARK)


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

    def dump(self, path: Path) -> None:
        """One event a line, for `load`; may be called by a process that is about to end."""
        with path.open("w", encoding="utf-8") as file:
            for event in self.events:
                file.write(json.dumps(event, separators=(",", ":")) + "\n")

    def write(self, path: Path) -> None:
        """The file for Perfetto."""
        write(path, self.events)


def load(path: Path) -> Trace:
    """What `dump` wrote; a last line that was cut short by a death is left out."""
    found = Trace()
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                kind, process, thread, name, begin, duration, arguments = json.loads(line)
            except ValueError:
                if line.endswith("\n"):
                    raise
                break
            found.events.append((kind, process, thread, name, begin, duration, arguments))
    return found


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
    """Write a trace file, event by event: it may be larger than what one wants to hold twice."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[')
        separator = "\n"
        for row in rows(events):
            file.write(separator + json.dumps(row, separators=(",", ":"), sort_keys=True))
            separator = ",\n"
        file.write("\n]}\n")


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
        row: dict[str, Any] = {
            "ph": kind,
            "pid": pids[process],
            "tid": threads[process][thread],
            "name": name,
            "ts": _microseconds(begin),
        }
        if kind == SPAN:
            row["dur"] = _microseconds(duration)
        elif kind == MARK:
            row["s"] = "t" if thread else "p"
        if arguments is not None:
            row["args"] = dict(arguments)
        yield row


def _named(what: str, pid: int, tid: int, arguments: Arguments) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": dict(arguments)}


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _natural(name: str) -> list[tuple[int, str]]:
    """ "generate 2" before "generate 10"."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
