"""What a device says about itself while it is shared."""

from __future__ import annotations

from ebrl.runtime.quota.nvml import look
from tests.runtime.quota.fakes import FakeNvml


def test_a_throttled_device_says_so_and_why():
    library = FakeNvml()
    state = look(0, library)
    assert state is not None
    assert state.clock == 0.5
    assert state.throttled == ("thermal limit (hardware)",)
    assert library.open == 0


def test_where_nvml_cannot_tell_nothing_is_assumed():
    assert look(0, FakeNvml(works=False)) is None
