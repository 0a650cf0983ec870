"""MPS: a percentage that a client is started with; what the control program says is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebrl.errors import RunError
from ebrl.runtime.quota.mps import Mps
from ebrl.runtime.quota.none import Unenforced
from ebrl.runtime.quota.protocol import Quota
from tests.runtime.quota.fakes import FakeControl


def mps(folder: Path, control: FakeControl, sms: int = 132) -> Mps:
    return Mps("GPU-1234", sms, folder, control=control)


@pytest.mark.parametrize("total", [40, 108, 132])
def test_the_percentage_that_a_client_gets_gives_it_what_was_granted(tmp_path: Path, total: int):
    enforcer = mps(tmp_path, FakeControl(), total)
    for asked in range(1, total + 1):
        layout = enforcer.realise((Quota(worker="act", sms=asked),))
        enforcer.apply(layout)
        percent = int(enforcer.client_environment("act")["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"])
        assert asked <= layout.of("act").sms <= percent * total // 100


def test_a_client_is_told_the_pipe_and_never_the_device(tmp_path: Path):
    control = FakeControl()
    enforcer = mps(tmp_path, control)
    enforcer.apply(enforcer.realise((Quota(worker="act", sms=33),)))
    told = enforcer.client_environment("act")
    assert told["CUDA_MPS_PIPE_DIRECTORY"] == str(tmp_path / "pipe")
    assert "CUDA_VISIBLE_DEVICES" not in told
    (started,) = control.asked
    assert started[0][-1] == "-d"
    assert started[2]["CUDA_VISIBLE_DEVICES"] == "GPU-1234"


def test_whoever_gets_another_percentage_has_to_be_started_anew(tmp_path: Path):
    enforcer = mps(tmp_path, FakeControl())
    enforcer.apply(enforcer.realise((Quota(worker="act", sms=33), Quota(worker="ppo", sms=66))))
    changed = enforcer.realise((Quota(worker="act", sms=66), Quota(worker="ppo", sms=66)))
    assert enforcer.apply(changed) == {"act"}
    assert not enforcer.capabilities().in_place


def test_an_exit_code_of_zero_is_not_success(tmp_path: Path):
    said = "An instance of this daemon is already running. Cannot start."
    enforcer = mps(tmp_path, FakeControl({"-d": said}))
    with pytest.raises(RunError, match="already running"):
        enforcer.apply(enforcer.realise((Quota(worker="act", sms=8),)))


def test_the_daemon_that_was_started_is_quit_once(tmp_path: Path):
    control = FakeControl()
    enforcer = mps(tmp_path, control)
    enforcer.apply(enforcer.realise((Quota(worker="act", sms=8),)))
    assert enforcer.verify() == ()
    enforcer.close()
    enforcer.close()
    assert [text for _, text, _ in control.asked] == ["", "get_server_list", "quit -t 5"]


def test_more_clients_than_a_server_has_are_refused(tmp_path: Path):
    with pytest.raises(RunError, match="48 clients"):
        mps(tmp_path, FakeControl()).realise([Quota(worker=str(i), sms=1) for i in range(49)])


def test_without_a_mechanism_everybody_is_told_that_he_may_use_everything():
    enforcer = Unenforced(132, hint="install the driver's MPS")
    layout = enforcer.realise((Quota(worker="act", sms=8),))
    assert layout.of("act").sms == 132
    assert not enforcer.capabilities().disjoint
