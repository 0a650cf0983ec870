"""A device that is slow is told from a stage that is, and from noise."""

from __future__ import annotations

import numpy as np
import pytest

from ebrl.planner.plan import Plan
from ebrl.runtime.watch.drift import Detector, Finding
from ebrl.runtime.watch.expect import Expectation
from ebrl.runtime.watch.window import Part, StageWindow, Window
from tests.runtime.emulated_plans import eight

PLACE = "a100x8-0/3"


@pytest.fixture(scope="module")
def made() -> Plan:
    return eight()


class Eight:
    """Windows of a run on eight GPUs."""

    def __init__(self, plan: Plan, sigma: float = 0.05) -> None:
        self.plan, self.sigma = plan, sigma
        self.stages: dict[str, float] = {}
        self.devices: dict[str, float] = {}
        self._expected = Expectation(plan, plan.profile)
        self._generator = np.random.default_rng(0)
        self.detector = Detector(plan, plan.profile, window_s=1.0)

    def watch(self, seconds: int) -> Finding:
        for second in range(seconds):
            stages = {stage.name: self._stage(stage.name) for stage in self.plan.stages}
            self.detector.add(
                Window(at_s=second, seconds=1.0, stages=stages, trained=0, ours=0.0, foreign=0.0)
            )
        return self.detector.finding()

    def _stage(self, name: str) -> StageWindow:
        parts = {}
        for replica in self.plan.stage(name).replicas:
            batch = 64.0 if replica.share else 4.0
            index = str(replica.index)
            own = index if replica.device is not None else None
            noise = self.sigma * self._generator.standard_normal()
            seconds = float(np.exp(self._expected.log_item(name, batch, own) + noise))
            seconds *= self.stages.get(name, 1.0)
            seconds *= self.devices.get(f"{replica.node}/{replica.device}", 1.0)
            parts[index] = Part(seconds, batch)
        work = float(np.mean([part.work_s for part in parts.values()]))
        return StageWindow(
            firings=50, items=200, work_s=work, batch=4.0, p50_s=work, p95_s=work,
            busy=0.5, queue=1.0, parts=parts,
        )  # fmt: skip


def test_what_is_slow_on_one_device_is_the_device_and_no_stage(made):
    run = Eight(made)
    assert run.watch(40).kind == "none"
    run.devices[PLACE] = 2.0
    found = run.watch(6)
    assert found.kind == "drift"
    assert found.slow == {PLACE: pytest.approx(2.0, rel=0.1)}
    assert set(found.factors.values()) == {1.0}
    assert f"on GPU {PLACE}" in found.text


def test_a_stage_that_is_slow_everywhere_is_no_device(made):
    run = Eight(made)
    run.watch(40)
    run.stages["generate"] = 1.8
    found = run.watch(6)
    assert found.factors["generate"] == pytest.approx(1.8, rel=0.1)
    assert found.slow == {}


def test_what_is_known_of_a_device_is_not_found_again_and_its_recovery_is(made):
    run = Eight(made)
    run.devices[PLACE] = 2.0
    run.detector.rebase(made, made.profile, 0.0, {PLACE: 2.0})
    found = run.watch(60)
    assert found.kind == "none"
    assert found.slow == {PLACE: 2.0}
    run.devices.clear()
    found = run.watch(6)
    assert found.kind == "drift"
    assert found.slow == {}
    assert "1.00 times as long on GPU" in found.text


@pytest.mark.parametrize("sigma", [0.05, 0.2])
def test_an_hour_of_noise_on_eight_devices_is_noise(made, sigma):
    run = Eight(made, sigma)
    for _ in range(36):
        assert run.watch(100).kind == "none"
