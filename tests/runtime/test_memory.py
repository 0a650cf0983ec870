"""What a learner keeps in memory is whole, or it is the entry before."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from ebrl.runtime import memory
from ebrl.runtime.memory import Memory
from tests.runtime.test_checkpoint import state


@pytest.fixture
def fds():
    made = memory.create()
    yield made
    for fd in made:
        os.close(fd)


def test_the_newest_that_is_not_newer_than_what_was_published_is_found(fds) -> None:
    writer = Memory(fds)
    assert Memory(fds).newest(10) is None
    for version in (3, 4):
        writer.store(b"x" * version, state(version))
    assert Memory(fds).newest(10) == (b"xxxx", state(4))
    assert Memory(fds).newest(3) == (b"xxx", state(3))
    assert Memory(fds).newest(2) is None


def test_who_takes_over_writes_over_the_older_one(fds) -> None:
    Memory(fds).store(b"old", state(1))
    second = Memory(fds)
    assert second.newest(1) is not None
    second.store(b"longer than before", state(2))
    third = Memory(fds)
    assert third.newest(2)[0] == b"longer than before"
    assert third.newest(1)[0] == b"old"


def test_a_death_at_any_line_of_storing_leaves_the_entry_before(fds) -> None:
    ended = False
    seen = set()
    for line in range(1, 60):
        Memory(fds).store(b"one" * 1000, state(1))
        child = os.fork()
        if child == 0:
            left = line

            def trace(frame, event, arg):
                nonlocal left
                if frame.f_code.co_filename != memory.__file__:
                    return None
                if event == "line":
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                return trace

            again = Memory(fds)
            again.newest(1)
            sys.settrace(trace)
            again.store(b"two" * 2000, state(2))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        found = Memory(fds).newest(2)
        assert found in ((b"one" * 1000, state(1)), (b"two" * 2000, state(2)))
        seen.add(found[1].version)
        ended = os.WIFEXITED(status)
        if ended:
            break
        for fd in fds:
            os.ftruncate(fd, 0)
    assert ended
    assert seen == {1, 2}
