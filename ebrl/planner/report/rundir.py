"""What a run left in its directory, read as data: its summary and one line an update.

Invariant: a directory that was damaged, belongs to another plan or is not there is one clear error;
a run that was killed, so that its summary is missing or its last line cut short, is still reported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ebrl.errors import EbrlError
from ebrl.planner.plan import Plan
from ebrl.planner.plan import read as read_plan

PLAN, SUMMARY, PROGRESS = "plan.json", "summary.json", "progress.jsonl"
NEEDED = ("seconds", "env_steps")  # of every line


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """What the workers of one stage spent, all together. `busy` is the share of their time."""

    busy_s: float
    firings: float
    items: float
    workers: float
    busy: float
    batch: float
    seconds: float  # of one firing


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """Means over the first episodes."""

    episodes: int
    ep_rew_mean: float | None
    ep_len_mean: float | None
    success_once: float | None


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Environment steps and what became of them."""

    produced: int
    trained: int
    discarded: dict[str, int]
    in_flight: int

    @property
    def balance(self) -> int:
        return self.produced - self.trained - sum(self.discarded.values()) - self.in_flight


class Staleness(msgspec.Struct, frozen=True, kw_only=True):
    """In policy versions."""

    mean: float
    max: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """`summary.json`, as far as a report shows it; what is not named here is of no concern."""

    env_steps: int
    env_steps_per_s: float | None
    steady_env_steps_per_s: float | None
    episodes: int
    ep_rew_mean: float | None
    success_once: float | None
    first: Scores
    ledger: Ledger
    staleness: Staleness
    restarts: int
    replans: int
    skipped_updates: int = 0
    checkpoint: str | None
    weights_sha256: str | None
    updates: int
    seconds: float
    start_to_first_step_s: float | None
    start_to_first_update_s: float | None
    memory_bytes: int
    stages: dict[str, Clock]
    ended: str

    @property
    def measured_env_steps_per_s(self) -> float | None:
        """Between the first update and the last; of a run too short for that, over all of it."""
        return self.steady_env_steps_per_s or self.env_steps_per_s


Row = dict[str, Any]


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run directory. Times of `rows` go on where a resumed run began anew."""

    path: str
    summary: Summary | None
    rows: tuple[Row, ...]
    remarks: tuple[str, ...]  # what a reader has to know about the files


def read(folder: Path, plan: Plan) -> RunRecord:
    """Read the directory of a run of this plan.

    Raises EbrlError `run-missing`, `run-empty`, `run-malformed` or `run-of-another-plan`.
    """
    if not folder.is_dir():
        raise EbrlError(
            "run-missing",
            "there is no such run directory",
            where=str(folder),
            hint="name what `ebrl execute --logdir DIR` wrote",
        )
    remarks = list(_same_plan(folder, plan))
    summary = _summary(folder / SUMMARY)
    rows, cut = _rows(folder / PROGRESS)
    if summary is None and not rows:
        raise EbrlError(
            "run-empty",
            f"the directory holds neither {SUMMARY} nor a line of {PROGRESS}",
            where=str(folder),
            hint="the run is not a minute old, ended before its first update, or is another folder",
        )
    if summary is None:
        remarks.append(
            f"The run has left no {SUMMARY}: it is still going on, or was killed. "
            "Only its curves are known."
        )
    if cut:
        remarks.append(f"The last line of {PROGRESS} is cut short and left out.")
    if not rows:
        remarks.append("No update ended, so there are no curves.")
    latest = _latest(rows)
    if len(latest) < len(rows):
        remarks.append("The directory was used before; the curves are those of its latest run.")
    return RunRecord(
        path=str(folder), summary=summary, rows=_continued(latest), remarks=tuple(remarks)
    )


def _same_plan(folder: Path, plan: Plan) -> list[str]:
    path = folder / PLAN
    if not path.is_file():
        return [f"The directory holds no {PLAN}: that it is a run of this plan is taken on trust."]
    if (ran := read_plan(path).digest()) != (asked := plan.digest()):
        raise EbrlError(
            "run-of-another-plan",
            f"the run executed plan {ran[:12]}…, this is plan {asked[:12]}…: predicted and "
            "measured would not belong together",
            where=str(path),
            hint=f"report on the plan that ran: ebrl report {path} --run {folder}",
        )
    return []


def _summary(path: Path) -> Summary | None:
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(_bytes(path), type=Summary)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed(str(path), str(error)) from error


def _rows(path: Path) -> tuple[list[Row], bool]:
    """The lines, and whether the last is cut short (a run that was killed while it wrote)."""
    if not path.is_file():
        return [], False
    data = _bytes(path)
    lines = data.splitlines()
    cut = bool(lines) and not data.endswith(b"\n")
    rows = []
    for at, line in enumerate(lines[:-1] if cut else lines, 1):
        try:
            row = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _malformed(f"{path}: line {at}", str(error)) from error
        for key in NEEDED:
            if isinstance(row.get(key), bool) or not isinstance(row.get(key), int | float):
                raise _malformed(f"{path}: line {at}", f"`{key}` is not a number")
        rows.append(row)
    return rows, cut


def _latest(rows: list[Row]) -> list[Row]:
    """Without what an earlier run, that this one did not resume, left in the same file."""
    begin = 0
    for at in range(1, len(rows)):
        if rows[at]["env_steps"] < rows[at - 1]["env_steps"]:
            begin = at
    return rows[begin:]


def _continued(rows: list[Row]) -> tuple[Row, ...]:
    """With seconds that never run backwards: a resumed run goes on where the one before ended."""
    found, before, offset = [], 0.0, 0.0
    for row in rows:
        if row["seconds"] + offset < before:
            offset = before
        before = row["seconds"] + offset
        found.append(row | {"seconds": before})
    return tuple(found)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EbrlError(
            "run-unreadable", f"cannot read it: {error.strerror}", where=str(path)
        ) from error


def _malformed(where: str, message: str) -> EbrlError:
    return EbrlError(
        "run-malformed",
        message,
        where=where,
        hint="the file was edited or damaged; leave it out with another --run, or run again",
    )
