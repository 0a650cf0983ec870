"""Plans and run directories to report on: the real graph of a real workload, hand-set placements,
and run directories in the runtime's own formats.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec

from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.frontend.program import Program
from ebrl.planner.cluster import parse
from ebrl.planner.plan import (
    Alternative,
    Buffers,
    Environments,
    Interference,
    Made,
    Pin,
    Plan,
    Prediction,
    Replica,
    Source,
    StagePlan,
    encode,
)
from ebrl.planner.profile import Point
from ebrl.runtime.ledger import Ledger
from ebrl.runtime.progress import Scores
from ebrl.runtime.summary import Summary

ROOT = Path(__file__).resolve().parents[3]
GRAPH = ROOT / "graphs/pi05_libero.py"
PREDICTED = 640.0


@cache
def program() -> Program:
    return check(load_graph(GRAPH))


def replica(node: str, device: int | None = None, **given: Any) -> Replica:
    return Replica(
        **{"index": 0, "node": node, "device": device, "cores": 1.0, "batch": 8, **given}
    )


def stage(name: str, *replicas: Replica, **given: Any) -> StagePlan:
    source: Source = "estimated"
    values: dict[str, Any] = {
        "kind": name,
        "batch": 8,
        "seconds": 0.02,
        "items_per_s": 400.0 * len(replicas),
        "utilisation": 0.8,
        "source": source,
        "memory_bytes": 10**9,
    }
    return StagePlan(name=name, replicas=replicas, **{**values, **given})


def plan(cluster: str = "a100x2", stages: Sequence[StagePlan] = (), **given: Any) -> Plan:
    """On two A100: one shared by generate and train, one of train's alone."""
    node = f"{cluster}-0"
    stages = stages or (
        stage("simulate", *(replica(node, cores=8.0) for _ in range(4)), source="published"),
        stage("generate", replica(node, 0, sms=64, busy=0.8)),
        stage(
            "train",
            replica(node, 0, sms=44, sm_start=64, share=4096, busy=0.9),
            replica(node, 1, sms=108, share=6144, busy=0.9),
            batch=10240,
        ),
    )
    values: dict[str, Any] = {
        "program": program(),
        "program_sha256": "1" * 64,
        "cluster": parse(cluster),
        "cluster_sha256": "2" * 64,
        "profile": (
            Point(
                stage="pi05/act",
                device="a100",
                sms=108,
                cores=1.0,
                batch=8,
                median_s=0.02,
                p95_s=0.03,
                bytes=10**9,
                source="published",
                origin="a paper, see https://example.org/paper?a=1&b=2",
            ),
        ),
        "profile_sha256": "3" * 64,
        "schedule": "asynchronous",
        "max_staleness": 1,
        "environments": Environments(count=64, groups=2),
        "buffers": Buffers(
            segments=64, horizon=8, segment_bytes=2048, weights_bytes=4096, slab_bytes=150_000
        ),
        "prediction": Prediction(
            throughput_env_steps_per_s=PREDICTED,
            bound_env_steps_per_s=655.0,
            gap=0.0229,
            bottleneck="generate",
            why="generate is busy all the time",
        ),
        "alternatives": (
            Alternative(name="collocated", throughput_env_steps_per_s=480.0, why="takes turns"),
            Alternative(name="even split", throughput_env_steps_per_s=None, why="3 GB too much"),
        ),
        "pins": (Pin(stage="generate", key="batch", value=8),),
        "interference": (Interference(stages=("generate", "train"), factor=1.1),),
        "notes": ("a note of the planner's",),
        "made": Made(
            version="1.2.3",
            solver="HiGHS",
            solve_s=0.2,
            total_s=0.5,
            created_at="2026-03-01T12:30:00+00:00",
        ),
    }
    made = Plan(stages=tuple(stages), **{**values, **given})
    return msgspec.json.decode(encode(made), type=Plan)  # as it is when read from a file


def rows(updates: int, *, begin: int = 0, steps_per_s: float = 612.0) -> list[dict[str, Any]]:
    """Lines of progress.jsonl, an update every two seconds."""
    return [
        {
            "seconds": 2.0 * number,
            "env_steps": begin + round(2.0 * number * steps_per_s),
            "version": number,
            "episodes": 10 * number,
            "ep_rew_mean": 30.0 * (1 - math.exp(-number / 20)),
            "ep_len_mean": 50.0,
            "success_once": min(1.0, number / 60),
            "env_steps_per_s": None if number == 1 else steps_per_s,
            "staleness_mean": 0.4,
            "staleness_max": 1,
            "train/policy_loss": -0.01 if number % 7 else None,
            "train/entropy": 1.5 - number / 100,
        }
        for number in range(1, updates + 1)
    ]


def summary(**given: Any) -> Summary:
    """As the runtime writes it."""
    clock = {"busy_s": 60.0, "firings": 3000.0, "items": 24000.0, "workers": 1.0}
    clock |= {"busy": 0.6, "batch": 8.0, "seconds": 0.02}
    values: dict[str, Any] = {
        "env_steps": 61_200,
        "env_steps_per_s": 600.0,
        "steady_env_steps_per_s": 612.0,
        "predicted_env_steps_per_s": PREDICTED,
        "episodes": 500,
        "ep_rew_mean": 30.0,
        "success_once": 0.91,
        "first": Scores(episodes=100, ep_rew_mean=1.5, ep_len_mean=50.0, success_once=0.02),
        "ledger": Ledger(
            produced=64_000, trained=61_200, discarded={"stale": 2_300, "lost": 0}, in_flight=500
        ),
        "staleness": {"mean": 0.4, "max": 1},
        "restarts": 0,
        "rebuilds": 0,
        "skipped_updates": 0,
        "replans": 0,
        "checkpoint": "runs/demo/checkpoint/v00000050",
        "weights_sha256": "4" * 64,
        "updates": 50,
        "seconds": 112.0,
        "start_to_first_step_s": 9.5,
        "start_to_first_update_s": 12.0,
        "memory_bytes": 1_400_000_000,
        "stages": {"simulate": dict(clock), "generate": dict(clock), "train": dict(clock)},
        "ended": "done",
        "run_dir": "runs/demo",
    }
    return Summary(**{**values, **given})


def run_directory(
    folder: Path,
    of: Plan | None = None,
    *,
    summed: Summary | None = None,
    lines: Sequence[Mapping[str, Any]] | None = None,
) -> Path:
    """A run directory with plan.json, summary.json and progress.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_bytes(encode(of or plan()))
    (folder / "summary.json").write_bytes(msgspec.json.encode(summed or summary()))
    write_rows(folder, rows(50) if lines is None else lines)
    return folder


def write_rows(folder: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (folder / "progress.jsonl").write_text(text)


class Page(HTMLParser):
    """A page, parsed as HTML: every element, its text, and whether tags are closed as opened."""

    VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.faults: list[str] = []
        self.words: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if len({key for key, _ in attrs}) < len(attrs):
            self.faults.append(f"line {self.getpos()[0]}: an attribute twice in <{tag}>")
        if tag not in self.VOID:
            self._open.append(tag)
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append((int(tag[1]), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.faults.append(f"line {self.getpos()[0]}: </{tag}> closes nothing")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self._open):
            self.words.append(data)
        if self.headings and self._open and self._open[-1] == f"h{self.headings[-1][0]}":
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)

    @property
    def text(self) -> str:
        """All that is to be read, with plain spaces, one apart."""
        return " ".join(" ".join(self.words).split())

    def all(self, *tags: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag in tags]
