"""Windows of runs that were never run: stage times as one likes, with noise."""

from __future__ import annotations

import numpy as np

from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.planner.cluster import parse
from ebrl.planner.compile import compile
from ebrl.planner.plan import Plan
from ebrl.planner.profile import Point
from ebrl.runtime.watch.window import StageWindow, Window
from tests.runtime.support import GRAPHS

ITEM_S = {"simulate": 1e-3, "generate": 1e-4, "train": 2e-4}


def points(**item_s: float) -> tuple[Point, ...]:
    """Times of cartpole.py's stages: an answer costs a fixed part and one for each item."""
    s = ITEM_S | item_s

    def point(stage: str, batch: int, seconds: float) -> Point:
        return Point(
            stage=stage,
            device="cpu",
            cores=1.0,
            batch=batch,
            median_s=seconds,
            p95_s=1.2 * seconds,
            bytes=10_000_000,
            source="measured",
            origin="a world",
        )

    answers = [point("generate", b, s["generate"] * (4 + b)) for b in (1, 2, 4, 8)]
    return (
        point("simulate", 1, s["simulate"]),
        point("simulate", 8, 8 * s["simulate"]),
        *answers,
        point("train", 512, 512 * s["train"]),
    )


def plan(cluster: str = "cpu2", **item_s: float) -> Plan:
    return compile(check(load_graph(GRAPHS / "cartpole.py")), parse(cluster), points(**item_s))


class World:
    """A run of a plan: one window a call."""

    def __init__(self, plan: Plan, *, sigma: float = 0.05, seed: int = 0) -> None:
        self.plan = plan
        self.sigma = sigma
        self.at_s = 0.0
        self.foreign = 0.0
        self.batch = float(plan.stage("generate").batch)
        self.factors = dict.fromkeys(ITEM_S, 1.0)
        self._generator = np.random.default_rng(seed)

    def window(self, seconds: float = 1.0) -> Window:
        self.at_s += seconds
        stages = {
            "simulate": self._stage("simulate", 200, 8, ITEM_S["simulate"]),
            "generate": self._stage(
                "generate", 200, self.batch, ITEM_S["generate"] * (4 + self.batch) / self.batch
            ),
            "train": self._stage("train", 2, 512, ITEM_S["train"]),
        }
        return Window(
            at_s=self.at_s,
            seconds=seconds,
            stages=stages,
            trained=1000,
            ours=1.5,
            foreign=self.foreign,
        )

    def _stage(self, name: str, firings: int, batch: float, item_s: float) -> StageWindow:
        noise = float(np.exp(self.sigma * self._generator.standard_normal()))
        seconds = item_s * self.factors[name] * noise
        return StageWindow(
            firings=firings,
            items=round(firings * batch),
            work_s=seconds,
            batch=batch,
            p50_s=seconds * batch,
            p95_s=1.3 * seconds * batch,
            busy=0.5,
            queue=2.0,
        )
