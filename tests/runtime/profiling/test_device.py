"""The same measuring on a device: quotas are enforced and events time them, behind the driver."""

from __future__ import annotations

import pytest

from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph
from ebrl.runtime.profiling.asking import Ask, Request
from ebrl.runtime.profiling.measure import Bench
from ebrl.runtime.profiling.stopwatch import CpuSeconds, DeviceSeconds, Stopwatch, UnqueuedWall
from tests.runtime.quota.fakes import FakeDriver
from tests.runtime.support import GRAPHS


class Kernels:
    """A stage whose batch takes one millisecond an item over its share of the device."""

    weights_bytes = 0
    environments = 0
    memory = (0, 0)

    def __init__(self, driver: FakeDriver) -> None:
        self._driver = driver
        self.threads_set = 0

    def fire(self, batch: int, watch: Stopwatch) -> tuple[float, int]:
        watch.start()
        held = list(self._driver.contexts.values())[-1]  # the newest layout's
        self._driver.now_ms += batch * 132 / len(held)
        return watch.stop(), batch

    def threads(self, count: int) -> None:
        self.threads_set = count

    def close(self) -> None:
        pass


def request() -> Request:
    return Request(
        role="generate",
        stage="generate",
        policy_stage="generate",
        program=check(load_graph(GRAPHS / "cartpole.py")),
        graph="",
        graph_sha256=None,
        environments=8,
        patience_s=1.0,
        device="cuda:0",
    )


def test_a_quota_is_granted_as_the_hardware_can_and_timed_by_events_on_its_stream():
    driver = FakeDriver()
    bench = Bench(request(), Kernels(driver), driver)
    whole = bench.answer(Ask(batch=4, sms=128, seconds=0.02))
    part = bench.answer(Ask(batch=4, sms=60, seconds=0.02))
    assert (whole.granted_sms, part.granted_sms) == (128, 64)
    assert whole.seconds[0] == pytest.approx(4e-3 * 132 / 128)
    assert part.seconds[0] == pytest.approx(2 * whole.seconds[0])
    recorded = {call[2] for call in driver.calls if call[0] == "record"}
    assert recorded <= set(driver.streams)
    assert len(recorded) == 2
    bench.close()
    assert driver.streams == {}


def test_the_host_cannot_be_mistaken_for_the_device():
    driver = FakeDriver()
    watch = DeviceSeconds(driver, lambda: 0)
    watch.start()
    sum(range(10_000))
    assert watch.stop() == 0.0


@pytest.mark.parametrize("kind", [CpuSeconds, UnqueuedWall])
def test_on_cores_work_is_timed(kind: type[CpuSeconds] | type[UnqueuedWall]):
    watch = kind()
    watch.start()
    sum(range(200_000))
    assert 1e-4 < watch.stop() < 1.0
