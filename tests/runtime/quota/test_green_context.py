"""Green contexts: disjoint sets of SMs, made from one split, changed by taking another stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebrl.errors import RunError
from ebrl.runtime.quota.green_context import GreenContexts
from ebrl.runtime.quota.protocol import Quota
from tests.runtime.quota.fakes import FakeDriver


def quotas(**sms: int) -> tuple[Quota, ...]:
    return tuple(Quota(worker=worker, sms=count) for worker, count in sms.items())


def test_a_request_is_rounded_up_to_the_devices_grid_and_nothing_is_made_yet():
    driver = FakeDriver()
    layout = GreenContexts(driver).realise(quotas(act=30, ppo=100 - 30))
    assert [each.sms for each in layout.granted] == [32, 72]
    assert layout.spare_sms == 128 - 104
    assert driver.contexts == {}


def test_what_does_not_fit_is_refused_with_both_sides_of_the_sum():
    with pytest.raises(RunError, match="act 100, ppo 40 SMs come to 144 on a grid of 8"):
        GreenContexts(FakeDriver()).realise(quotas(act=100, ppo=40))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4))
def test_workers_never_share_an_sm_and_get_at_least_what_they_asked_for(sms: list[int]):
    driver = FakeDriver()
    enforcer = GreenContexts(driver)
    request = tuple(Quota(worker=f"w{i}", sms=count) for i, count in enumerate(sms))
    try:
        layout = enforcer.realise(request)
    except RunError:
        assert sum(-(-count // 8) * 8 for count in sms) > 128
        return
    enforcer.apply(layout)
    held = [driver.sms_on(enforcer.stream(each.worker)) for each in request]
    assert sum(map(len, held)) == len(frozenset().union(*held))
    assert all(len(mine) >= asked.sms for mine, asked in zip(held, request, strict=True))
    assert enforcer.verify() == ()


def test_a_switch_takes_another_stream_that_waits_for_the_work_on_the_old_ones():
    driver = FakeDriver()
    enforcer = GreenContexts(driver)
    first = enforcer.realise(quotas(act=32, ppo=96))
    second = enforcer.realise(quotas(act=64, ppo=64))
    enforcer.apply(first)
    old = {worker: enforcer.stream(worker) for worker in ("act", "ppo")}
    driver.calls.clear()
    assert enforcer.apply(second) == frozenset()  # nobody has to be started anew
    new = {worker: enforcer.stream(worker) for worker in ("act", "ppo")}
    assert set(new.values()).isdisjoint(old.values())
    recorded = {event: stream for kind, event, stream in _of(driver, "record")}
    assert set(recorded.values()) == set(old.values())
    waits = [(stream, recorded[event]) for _, stream, event in _of(driver, "wait")]
    assert set(waits) == {(stream, each) for stream in new.values() for each in old.values()}
    assert waits[0][0] == new["ppo"]  # who shrinks switches first


def test_going_back_to_a_layout_makes_nothing_new():
    driver = FakeDriver()
    enforcer = GreenContexts(driver)
    first, second = (enforcer.realise(quotas(act=n)) for n in (32, 64))
    enforcer.apply(first)
    stream = enforcer.stream("act")
    enforcer.apply(second)
    enforcer.apply(first)
    assert enforcer.stream("act") == stream
    assert len(driver.contexts) == 2


def test_a_layout_that_the_driver_refuses_changes_nothing():
    driver = FakeDriver(refuse_contexts_from=3)
    enforcer = GreenContexts(driver)
    enforcer.apply(enforcer.realise(quotas(act=32, ppo=96)))
    before = (dict(driver.contexts), dict(driver.streams), enforcer.stream("act"))
    with pytest.raises(RunError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        enforcer.apply(enforcer.realise(quotas(act=64, ppo=64)))
    assert (driver.contexts, driver.streams, enforcer.stream("act")) == before


def test_closing_destroys_the_streams_too_although_their_contexts_are_gone():
    driver = FakeDriver()
    enforcer = GreenContexts(driver)
    enforcer.apply(enforcer.realise(quotas(act=32, ppo=64)))
    enforcer.close()
    assert driver.contexts == {}
    assert driver.streams == {}


def _of(driver: FakeDriver, kind: str) -> list[tuple[object, ...]]:
    return [call for call in driver.calls if call[0] == kind]
