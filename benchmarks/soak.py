"""A run under random faults of every kind: does it end as if nothing had been?

    python -m benchmarks.soak [--faults 200] [--seed 0] [--windows 12] [-o FILE]

CartPole as the planner lays it out. Workers are killed, stopped, hung, made to leave, to raise, to
answer NaN or the wrong shape, and to grow, at random times, some while another is still being
replaced. Before the first fault and after the last, throughput is measured without any, in windows
of some seconds, as its ratio to that of a second run, which nobody harms, in the same windows: what
else the machine does at the time meets both, and what faults leave behind meets one. Checked at the
end: the run completed, every step was trained on once or thrown away with a reason, no step was
staler than the bound, nobody is left and nothing in /dev/shm. Recovery is from the fault (a hang's:
the last sign of life) until the worker at its post is ready again, as the run itself wrote it down.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.graphs import faults
from benchmarks.machine import describe
from ebrl.planner.plan import Plan, encode
from ebrl.runtime.strikes import WINDOW

ROOT = Path(__file__).resolve().parents[1]
GRAPH = ROOT / "benchmarks/graphs/soak.py"
MARK = "EBRL_SOAK"
KINDS = (
    *(("kill", role) for role in ("simulate", "generate", "train", "nursery")),
    *(("stop", role) for role in ("simulate", "generate", "train")),
    *((fault, "step") for fault in ("raise", "nan", "shape", "exit", "leave", "hang", "grow")),
    *((fault, "reset") for fault in ("raise", "exit", "hang")),
    *((fault, "policy") for fault in ("raise", "nan", "exit", "leave", "hang", "grow")),
    *((fault, "learner") for fault in ("raise", "nan", "exit", "leave", "hang", "grow")),
)
HANG_AFTER_S = 1.5
WINDOW_S = 6.0
MEMORY_GB = 0.5
RECOVERED = {"recovered", "environment-failed", "update-skipped"}


class Soak:
    """One run, and somebody who harms it."""

    def __init__(self, plan: Plan, folder: Path, *, seed: int) -> None:
        self.folder = folder
        self._random = random.Random(seed)
        self._faults = folder / "faults.bin"
        self._faults.write_bytes(bytes(len(faults.PLACES)))
        path = folder / "plan.json"
        path.write_bytes(encode(plan))
        self.mark = uuid.uuid4().hex
        self.shared = set(os.listdir("/dev/shm"))
        self.committed: Counter[str] = Counter()
        self.not_met: Counter[str] = Counter()
        command = [sys.executable, "-m", "ebrl.cli.main", "execute", str(path), "--json"]
        command += ["--logdir", str(folder / "run"), "--patience", str(10_000 // WINDOW)]
        command += ["--hang-after", str(HANG_AFTER_S), "--worker-memory", str(MEMORY_GB)]
        command += ["--checkpoint-every", "5", "--seed", str(seed), "--no-replan"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, faults.PLACE: str(self._faults), MARK: self.mark},
        )

    def wait_until_it_trains(self, updates: int, timeout_s: float = 120.0) -> None:
        """For `updates` more of them."""
        target = len(self.updates()) + updates
        deadline = time.monotonic() + timeout_s
        while len(self.updates()) < target:
            code = self.process.poll()
            assert code is None, f"it ended with {code}: {self.process.communicate()}"
            assert time.monotonic() < deadline, "it does not train"
            time.sleep(0.1)

    def harm(self, kind: str, where: str) -> bool:
        """Commit one fault; False when nobody was there to commit it."""
        if where in faults.PLACES:
            faults.ask(self._faults, where, kind)
            met = self.until(lambda: not faults.pending(self._faults, where), 10.0)
            if not met:
                faults.ask(self._faults, where, "")
        else:
            number = signal.SIGKILL if kind == "kill" else signal.SIGSTOP
            victims = [each for each in self.workers() if _role(each) == where]
            met = bool(victims)
            if victims:
                try:
                    self._random.choice(victims).send_signal(number)
                except psutil.NoSuchProcess:
                    met = False
        (self.committed if met else self.not_met)[f"{where} {kind}"] += 1
        return met

    def harm_at_random(self, count: int) -> None:
        """Every kind in turn, in random order and at random times."""
        order: list[tuple[str, str]] = []
        while sum(self.committed.values()) < count and self.process.poll() is None:
            if not order:
                order = self._random.sample(KINDS, len(KINDS))
            kind, where = order.pop()
            before = self.recoveries()
            if self.harm(kind, where) and where != "nursery" and self._random.random() < 0.8:
                self.until(lambda before=before: self.recoveries() > before, 30.0)
            time.sleep(self._random.uniform(0.05, 0.6))
        self.until(self._all_there, 60.0)

    def workers(self) -> list[psutil.Process]:
        try:
            found: list[psutil.Process] = psutil.Process(self.process.pid).children()
            return found
        except psutil.NoSuchProcess:
            return []

    def recoveries(self) -> int:
        return sum(each["event"] in RECOVERED for each in self.events())

    def events(self) -> list[dict[str, Any]]:
        return _lines(self.folder / "run/events.jsonl")

    def updates(self) -> list[dict[str, Any]]:
        return _lines(self.folder / "run/progress.jsonl")

    def end(self) -> dict[str, Any]:
        """End it with SIGTERM; what it came to."""
        self.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        out, err = self.process.communicate(timeout=60)
        told: dict[str, Any] = json.loads(out)
        told["stop_s"] = time.monotonic() - began
        told["stderr"] = err
        told["exit_code"] = self.process.returncode
        return told

    def orphans(self) -> list[int]:
        """Processes of the run that are still there, by a mark in their environment."""
        mark = f"{MARK}={self.mark}".encode()
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (each / "environ").read_bytes():
                    found.append(int(each.name))
            except OSError:
                continue
        return found

    def left_in_shm(self) -> set[str]:
        return set(os.listdir("/dev/shm")) - self.shared

    def spent_s(self) -> float:
        """CPU time of all workers so far."""
        times = [each.cpu_times() for each in self.workers()]
        return float(sum(each.user + each.system for each in times))

    def _all_there(self) -> bool:
        roles = Counter(_role(each) for each in self.workers())
        return all(roles[role] >= 1 for role in ("simulate", "generate", "train"))

    def until(self, what: Any, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not what():
            if time.monotonic() > deadline or self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return True


def account(told: dict[str, Any], max_staleness: int) -> dict[str, Any]:
    """What must hold of any run."""
    ledger = told["ledger"]
    known = ledger["trained"] + sum(ledger["discarded"].values()) + ledger["in_flight"]
    return {
        "balance": ledger["produced"] - known,
        "within_staleness": told["staleness"]["max"] <= max_staleness,
        "discarded": ledger["discarded"],
        "produced": ledger["produced"],
    }


def plan_for(folder: Path) -> Plan:
    """By the planner, for this machine."""
    from ebrl.planner.plan import read

    path = folder / "made.json"
    command = [sys.executable, "-m", "ebrl.cli.main", "plan", str(GRAPH), "--cluster", "local"]
    subprocess.run([*command, "-o", str(path)], check=True, stdout=subprocess.DEVNULL)
    return read(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--windows", type=int, default=12, help="of measurement, before and after")
    parser.add_argument("--folder", type=Path, help="keep the run here")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ebrl-soak-") as name:
        folder = options.folder or Path(name)
        folder.mkdir(exist_ok=True, parents=True)
        told = soak(folder, options.faults, options.seed, options.windows)
    for key, value in told.items():
        if key not in ("machine", "committed"):
            print(f"{key:28} {value}")
    if options.output:
        options.output.write_text(json.dumps(told, indent=2) + "\n")


@dataclass(frozen=True)
class Windows:
    """What a run did in windows of time, and one beside it in the same: steps per second, and
    core-microseconds a step.
    """

    rates: list[tuple[float, float]]
    work: list[tuple[float, float]]

    @property
    def rate(self) -> float:
        return statistics.median(mine for mine, _ in self.rates)

    @property
    def ratio(self) -> float:
        return statistics.median(mine / theirs for mine, theirs in self.rates)

    @property
    def work_ratio(self) -> float:
        return statistics.median(mine / theirs for mine, theirs in self.work)

    @property
    def spread(self) -> list[float]:
        """Quartiles of the ratio."""
        ratios = [mine / theirs for mine, theirs in self.rates]
        return [round(each, 3) for each in statistics.quantiles(ratios, n=4)]


def measure(runs: tuple[Soak, Soak], windows: int) -> Windows:
    rates: list[tuple[float, float]] = []
    work: list[tuple[float, float]] = []
    for _ in range(windows):
        begin = [(each.updates()[-1], each.spent_s()) for each in runs]
        time.sleep(WINDOW_S)
        end = [(each.updates()[-1], each.spent_s()) for each in runs]
        found = []
        for (first, before_s), (last, after_s) in zip(begin, end, strict=True):
            steps = last["env_steps"] - first["env_steps"]
            seconds = last["seconds"] - first["seconds"]
            found.append((steps / seconds, 1e6 * (after_s - before_s) / steps))
        rates.append((found[0][0], found[1][0]))
        work.append((found[0][1], found[1][1]))
    return Windows(rates, work)


def soak(folder: Path, count: int, seed: int, windows: int) -> dict[str, Any]:
    plan = plan_for(folder)
    beside = folder / "beside"
    beside.mkdir(exist_ok=True)
    runs = one, other = Soak(plan, folder, seed=seed), Soak(plan, beside, seed=seed)
    try:
        for each in runs:
            each.wait_until_it_trains(20)
        time.sleep(2 * WINDOW_S)  # episodes lengthen at first
        before = measure(runs, windows)
        began = time.monotonic()
        one.harm_at_random(count)
        harmed_s = time.monotonic() - began
        time.sleep(2.0)
        one.wait_until_it_trains(2)
        after = measure(runs, windows)
        told = one.end()
        other.end()
    finally:
        for each in runs:
            if each.process.poll() is None:
                each.process.kill()
    time.sleep(0.5)
    recoveries = [each["recovery_s"] for each in one.events() if "recovery_s" in each]
    told_of = Counter(each["event"] for each in one.events())
    return {
        "faults": sum(one.committed.values()),
        "kinds": len(one.committed),
        "not_met": sum(one.not_met.values()),
        "seconds_of_faults": round(harmed_s, 1),
        "restarts": told["restarts"],
        "rebuilds": told["rebuilds"],
        "skipped_updates": told["skipped_updates"],
        "events": dict(told_of),
        "recovery_median_s": round(statistics.median(recoveries), 3),
        "recovery_p95_s": round(sorted(recoveries)[int(0.95 * len(recoveries))], 3),
        "recovery_max_s": max(recoveries),
        "before_env_steps_per_s": round(before.rate),
        "after_env_steps_per_s": round(after.rate),
        "before_over_beside": before.spread,
        "after_over_beside": after.spread,
        "throughput_back": round(after.ratio / before.ratio, 3),
        "work_back": round(before.work_ratio / after.work_ratio, 3),  # core time a step
        **account(told, plan.max_staleness),
        "ended": told["ended"],
        "exit_code": told["exit_code"],
        "stop_s": round(told["stop_s"], 2),
        "orphans": one.orphans(),
        "left_in_shm": sorted(one.left_in_shm()),
        "memory_bytes": told["memory_bytes"],
        "committed": dict(one.committed),
        "machine": describe(),
    }


def _role(process: psutil.Process) -> str:
    try:
        words = " ".join(process.cmdline()).split()
    except psutil.Error:
        return ""
    return words[1] if len(words) > 1 and words[0] == "ebrl" else ""


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text()
    except OSError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


if __name__ == "__main__":
    main()
