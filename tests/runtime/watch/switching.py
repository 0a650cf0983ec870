"""Run one plan, go over to each of the others after a while, tell what came of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from ebrl.planner.plan import read
from ebrl.runtime.options import Options
from ebrl.runtime.profiling.measure import weights_bytes
from ebrl.runtime.run import Run
from ebrl.runtime.rundir import RunDirectory
from ebrl.runtime.watch.decide import Policy
from ebrl.runtime.watch.switch import between

EVERY_S, LAST_S = 1.2, 3.0  # between switches; after the last one
STEPS = 10**9


def main() -> None:
    folder, first, *others = map(Path, sys.argv[1:])
    plan = read(first)
    graph = Path(plan.program.path)
    run = Run(
        plan,
        graph=graph,
        graph_sha256=None,
        directory=RunDirectory(folder),
        weights_bytes=weights_bytes(plan.program, graph, None),
        options=Options(steps=STEPS, replan=Policy(enabled=False)),
    )
    waiting = [read(path) for path in others]
    told: list[dict[str, object]] = []
    at = float("inf")

    def watch(run: Run) -> None:
        nonlocal at
        now = time.monotonic()
        settled = not run.watcher._applier.busy
        if at == float("inf") and run.progress.first_update_at is not None:
            at = now + EVERY_S
        if now < at or not settled or run.slab.fd < 0:
            return
        clock = run.slab["clock"]
        told.append(
            {
                "workers": sorted(post.name for post in run.supervisor.posts),
                "trained": run.progress.trained,
                "items": {p.name: int(clock[p.boot.worker, 2]) for p in run.supervisor.posts},
            }
        )
        if not waiting:
            run.slab["stop"][0] = 1
            run.ring_all()
            at = now + 1e9
            return
        following = waiting.pop(0)
        switch = between(run.watcher.plan, following, run.watcher._seats)
        assert not switch.impossible, switch.impossible
        told[-1]["switch"] = switch.words()
        run.watcher._take(following, switch)
        at = now + (EVERY_S if waiting else LAST_S)

    summary = run.execute(watch)
    print(msgspec.json.encode({"told": told, "summary": summary}).decode())


if __name__ == "__main__":
    main()
