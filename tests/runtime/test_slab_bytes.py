"""A pipeline on pictures shares as many bytes as its plan says, in one piece without a name."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest

from ebrl.frontend.check import check
from ebrl.frontend.load import load_graph, load_stage
from ebrl.planner.compile import compile
from ebrl.planner.detect import local
from ebrl.planner.plan import Plan
from ebrl.planner.profile import Point
from tests.runtime.support import GRAPHS
from tests.runtime.test_faults import updates
from tests.runtime.test_run import start, wait_for, workers, write

GRAPH = GRAPHS / "pictures.py"
HEIGHT, WIDTH, CHANNELS, HORIZON = 36, 40, 3, 8
PAGE = os.sysconf("SC_PAGE_SIZE")
NAME = "/memfd:ebrl-slab"


@pytest.fixture(scope="module")
def plan() -> Plan:
    """By the planner, with the size that the policy really has, and made up times."""
    program = check(load_graph(GRAPH))
    policy: Any = load_stage(str(GRAPH), None, program.of_kind("generate")[0].name)
    body = policy.build(program.environment, seed=0, device="cpu")
    size = 4 * sum(math.prod(shape) for shape in body.weights().values())
    replace = msgspec.structs.replace
    stages = tuple(
        replace(stage, weights_bytes=size) if stage.kind == "generate" else stage
        for stage in program.stages
    )
    points = [
        Point(
            stage=stage.profile_key or stage.name,
            device="cpu",
            cores=1.0,
            batch=batch,
            median_s=1e-3,
            p95_s=1e-3,
            bytes=0,
            source="measured",
        )
        for stage in stages
        for batch in ((128,) if stage.kind == "train" else (1,))
    ]
    nodes = tuple(replace(node, device=None, devices=0) for node in local().nodes)
    return compile(replace(program, stages=stages), replace(local(), nodes=nodes), points)


def test_the_plan_counts_every_picture_that_can_be_alive(plan: Plan) -> None:
    buffers = plan.buffers
    pictures = buffers.segments * (HORIZON + 1) * HEIGHT * WIDTH * CHANNELS
    each = 8 + 4 + 8 + 4 + 1 + 1 + 1  # action, log-prob, version, reward, steps and two flags
    rows = buffers.segments * HORIZON * each
    rest = buffers.slab_bytes - pictures - rows - 2 * buffers.weights_bytes
    assert 0 < rest < 16_384  # counters, clocks, and lines filled up
    assert buffers.weights_bytes > 4000


def test_the_run_shares_what_the_plan_says_to_the_byte(plan: Plan, tmp_path: Path) -> None:
    before = set(os.listdir("/dev/shm"))
    process = start(write(plan, tmp_path), tmp_path / "run")
    updates(tmp_path / "run", 2)
    team = [process.pid, *(each.pid for each in workers(process.pid))]
    said = plan.buffers.slab_bytes
    (held,) = {(found.st_ino, found.st_size, found.st_blocks * 512) for found in slabs(team)}
    inode, size, resident = held
    assert size == said
    assert resident == -(-said // PAGE) * PAGE  # every page is there, and none beside
    mapped = {pid: mappings(pid, inode) for pid in team}
    assert {each for found in mapped.values() for each in found} == {-(-said // PAGE) * PAGE}
    assert sum(bool(found) for found in mapped.values()) >= 4  # the run and its three workers
    assert set(os.listdir("/dev/shm")) <= before
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in team), 10.0)


def slabs(pids: list[int]) -> list[os.stat_result]:
    """What each process holds open under the slab's name."""
    found = []
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            if os.readlink(fd).startswith(NAME):
                found.append(os.stat(fd))
    return found


def mappings(pid: int, inode: int) -> list[int]:
    """Bytes of each mapping of that file in a process."""
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, _, _, _, number, *_ = line.split()
        if int(number) == inode and NAME in line:
            begin, end = (int(each, 16) for each in span.split("-"))
            found.append(end - begin)
    return found


def test_pictures_arrive_as_bytes_not_floats(plan: Plan) -> None:
    (tensor,) = plan.program.environment.obs.values()
    assert np.dtype(tensor.dtype) == np.uint8
