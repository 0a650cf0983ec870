"""Cores, for real: affinity of a process that is running, with all its threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ebrl.errors import RunError
from ebrl.runtime.quota.cores import Cores, pin, threads
from ebrl.runtime.quota.protocol import Quota

HERE = sorted(os.sched_getaffinity(0))
THREADED = (
    "import threading, sys\n"
    "for _ in range(5): threading.Thread(target=sys.stdin.read).start()\n"
    "print('up', flush=True)"
)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", THREADED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "up\n"
    yield child
    child.kill()
    child.communicate()


def test_every_thread_of_a_running_process_is_moved(process: subprocess.Popen[str]):
    assert len(threads(process.pid)) >= 6
    enforcer = Cores({"act": process.pid}.get, HERE)
    enforcer.apply(enforcer.realise((Quota(worker="act", cores=(HERE[0],)),)))
    assert {frozenset(os.sched_getaffinity(t)) for t in threads(process.pid)} == {
        frozenset({HERE[0]})
    }
    assert enforcer.verify() == ()
    enforcer.apply(enforcer.realise((Quota(worker="act"),)))  # no cores named: all of them
    assert os.sched_getaffinity(process.pid) == set(HERE)


@pytest.mark.skipif(len(HERE) < 2, reason="one core leaves nowhere to stray to")
def test_a_thread_that_strayed_is_named(process: subprocess.Popen[str]):
    enforcer = Cores({"act": process.pid}.get, HERE)
    enforcer.apply(enforcer.realise((Quota(worker="act", cores=(HERE[0],)),)))
    astray = threads(process.pid)[-1]
    os.sched_setaffinity(astray, {HERE[1]})
    (told,) = enforcer.verify()
    assert f"thread {astray} of act may run on [{HERE[1]}]" in told


def test_cores_that_the_run_has_not_are_refused():
    with pytest.raises(RunError, match=r"act asks for cores \[4096\]"):
        Cores(lambda _: None, HERE).realise((Quota(worker="act", cores=(4096,)),))


def test_a_process_that_is_gone_is_let_be(process: subprocess.Popen[str]):
    process.kill()
    process.wait()
    pin(process.pid, (HERE[0],))
    assert threads(process.pid) == ()
