"""How the workers of a run end: asked, waited for a bounded time, killed, reaped.

Invariant: after `stop_workers` nothing below this process is alive, whatever state it was in. The
last checkpoint is the learner's own, or where it could not write one, what it kept in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ebrl.runtime import checkpoint, processes
from ebrl.runtime.events import Events
from ebrl.runtime.memory import Fds, Memory
from ebrl.runtime.messages import Saved
from ebrl.runtime.nursery import Nursery
from ebrl.runtime.posts import Post

STOP_WITHIN_S = 3.5  # of the five that a signal is promised
WORKERS_WITHIN_S = 1.5  # simulators and policies hold nothing worth waiting for


def stop_workers(
    posts: Sequence[Post],
    nursery: Nursery | None,
    read: Callable[[float], None],
    *,
    release: Callable[[], None],
) -> None:
    """They have been asked to stop. `read` hears their messages for so many seconds; `release`
    gives back what the devices were shared with, which has no client any more."""
    deadline = time.monotonic() + STOP_WITHIN_S
    if nursery is not None:
        nursery.kill()
    read(0.0)
    present = [(post.boot.role, post.child) for post in posts if post.child is not None]
    others = [child for role, child in present if role != "train"]
    learners = [child for role, child in present if role == "train"]
    if any(not child.ready for child in others):
        for child in others:  # still starting: nothing to lose, and the learner needs the cores
            child.kill()
    for child in processes.wait_all(others, WORKERS_WITHIN_S):
        child.kill()
    while any(not child.gone for child in learners) and time.monotonic() < deadline:
        read(0.05)
    for _, child in present:
        child.kill()
    processes.wait_all([child for _, child in present], 1.0)  # each says how it ended
    release()
    processes.kill_descendants()
    read(0.0)


def save_from_memory(folder: Path, fds: Fds, version: int, events: Events) -> Saved | None:
    """The learner is dead: what it kept in memory is the last checkpoint."""
    kept = Memory(fds).newest(version)
    if kept is None:
        return None
    try:
        path, state = checkpoint.save(folder, *kept)
    except OSError as error:
        events.add("warning", f"the last checkpoint is not saved: {error}")
        return None
    return Saved(str(path), state.weights_sha256)
