"""The times of `benchmarks/graphs/eight.py` on an a100x8, declared: t(b, s) = t0 + b·c·(S/s)^α.

No GPU was asked: what is tested with them is how a run adapts when they change, so it matters that
they are of the kind that real stages have (a fixed part, less than proportional gain from SMs, a
spread), not that they are some model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ebrl.planner.plan import Plan
from ebrl.planner.profile import Point, Profile, of

GRAPH = Path(__file__).resolve().parent / "graphs" / "eight.py"
CLUSTER = "a100x8"
SMS, ALPHA = 108, 0.8
QUOTAS = (54, 108)
STEP_S, STEP_CORES, STEP_SPREAD = 0.011, 8.0, 1.35  # one environment step, on eight cores
ACT_S = (0.06, 0.009)  # a call, and each decision in it
TRAIN_S = (0.05, 0.0028)  # a call, and each environment step in it
SPREAD = 1.12  # p95 over median, of what runs on a GPU


def profile(factors: Mapping[str, float] | None = None) -> Profile:
    """`factors`: by stage, how much longer it takes than declared."""
    by = {"simulate": 1.0, "generate": 1.0, "train": 1.0, **(factors or {})}
    step = STEP_S * by["simulate"]
    found = [_point("step", "cpu", 0, STEP_CORES, 1, step, STEP_SPREAD, 1_200_000_000)]
    for key, (fixed, each), sizes, held in (
        ("act", ACT_S, (1, 2, 4, 8, 16, 32), 3_000_000_000),
        ("train", TRAIN_S, (32, 64, 128, 256, 384, 768), 24_000_000_000),
    ):
        factor = by["generate" if key == "act" else "train"]
        for sms in QUOTAS:
            slower = (SMS / sms) ** ALPHA
            found += [
                _point(key, "a100", sms, 1.0, b, factor * (fixed + each * b * slower), SPREAD, held)
                for b in sizes
            ]
    return of(found, note="declared")


def _point(
    key: str, device: str, sms: int, cores: float, batch: int, s: float, spread: float, held: int
) -> Point:
    return Point(
        stage=f"eight/{key}",
        device=device,
        sms=sms,
        cores=cores,
        batch=batch,
        median_s=s,
        p95_s=s * spread,
        bytes=held,
        source="measured",
        origin="declared for an emulation",
        samples=100,
    )


def plan(factors: Mapping[str, float] | None = None) -> Plan:
    """The best plan by these times."""
    from ebrl.frontend.check import check
    from ebrl.frontend.load import load_graph
    from ebrl.planner.cluster import parse
    from ebrl.planner.compile import compile
    from ebrl.planner.model.request import CompileOptions

    options = CompileOptions(alternatives=False)
    program = check(load_graph(GRAPH))
    return compile(program, parse(CLUSTER), profile(factors).points, options=options)
