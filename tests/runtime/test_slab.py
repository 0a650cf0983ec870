"""The shared memory of a run."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ebrl.errors import RunError
from ebrl.planner.layout import Field, Layout
from ebrl.runtime.books import Books
from ebrl.runtime.slab import Slab
from tests.runtime.support import pool, program


def test_a_slab_has_the_planned_size_and_no_name_anywhere() -> None:
    before = set(os.listdir("/dev/shm"))
    slab, _ = pool(program(), environments=4)
    assert os.fstat(slab.fd).st_size == slab.layout.total_bytes
    assert set(os.listdir("/dev/shm")) == before
    slab.close()


def test_arrays_start_at_cache_lines_and_do_not_overlap() -> None:
    slab, _ = pool(program(chunk=3), environments=3)
    end = 0
    for field, offset in zip(slab.layout.fields, slab.layout.offsets, strict=True):
        assert offset % 64 == 0
        assert offset >= end
        end = offset + field.nbytes
    slab.close()


def test_more_memory_than_there_is_is_an_error_at_the_start_that_names_both_sizes() -> None:
    layout = Layout(
        fields=(Field(name="x", dtype="uint8", shape=(3_000_000_000,)),),
        offsets=(0,),
        total_bytes=3_000_000_000,
    )
    with pytest.raises(RunError) as caught:
        Slab.create(layout, available_bytes=2_000_000_000)
    assert caught.value.code == "slab-too-large"
    assert "3.00 GB" in str(caught.value)
    assert "2.00 GB" in str(caught.value)


def test_the_lock_of_a_worker_that_was_killed_inside_it_is_free_again() -> None:
    slab, _ = pool(program(), environments=2)
    script = f"""
        import fcntl, os, signal
        fcntl.lockf({slab.fd}, fcntl.LOCK_EX, 1)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], pass_fds=(slab.fd,), check=False
    )
    assert done.returncode == -9
    with Books(slab):
        pass
    slab.close()


def test_what_one_process_writes_another_reads() -> None:
    slab, _ = pool(program(), environments=2)
    root = Path(__file__).parents[2]
    script = f"""
        import mmap
        memory = mmap.mmap({slab.fd}, {slab.layout.total_bytes})
        offset = {slab.layout.offsets[[f.name for f in slab.layout.fields].index("env/state")]}
        memory[offset + 1] = 7
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], pass_fds=(slab.fd,), check=True, cwd=root
    )
    assert slab["env/state"].tolist() == [0, 7]
    slab.close()
