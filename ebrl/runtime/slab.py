"""The shared memory of one run, laid out by the plan.

Invariant: the memory has no name. It is an anonymous file (memfd) whose descriptor the workers
inherit, so nothing can be left in /dev/shm, whoever dies and however, no attaching process can
unlink it, and the size of /dev/shm does not limit it. Pages are reserved before the first step: too
little memory is an error at start, not a SIGBUS in the middle.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from types import TracebackType
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from ebrl.errors import RunError
from ebrl.planner.layout import Layout

Array = NDArray[Any]
SHARE = 0.9  # of the free memory: the workers need some too


class Slab:
    """Named arrays over one anonymous file; `slab["env/state"]` is a writable view."""

    def __init__(self, fd: int, layout: Layout) -> None:
        self.fd = fd
        self.layout = layout
        self._map = mmap.mmap(fd, layout.total_bytes)
        self._arrays: dict[str, Array] = {
            field.name: np.ndarray(field.shape, field.dtype, self._map, offset)
            for field, offset in zip(layout.fields, layout.offsets, strict=True)
        }

    @classmethod
    def create(cls, layout: Layout, *, available_bytes: int | None = None) -> Slab:
        """A zeroed slab, every page of it reserved; RunError where the machine has too little.

        The kernel would grant any size and then kill somebody, so what is free is asked first.
        `available_bytes`: None for what this machine has free now.
        """
        free = psutil.virtual_memory().available if available_bytes is None else available_bytes
        if layout.total_bytes > SHARE * free:
            raise _too_large(
                layout, f"{free / 1e9:.2f} GB are free, of which it may take {SHARE:.0%}"
            )
        fd = os.memfd_create("ebrl-slab", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, layout.total_bytes)
            os.posix_fallocate(fd, 0, layout.total_bytes)
        except OSError as error:
            os.close(fd)
            if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
                raise
            raise _too_large(layout, f"the system will not give it: {error.strerror}") from error
        return cls(fd, layout)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def observations(self) -> dict[str, Array]:
        """Path → [segments, T + 1, *shape]."""
        prefix = "obs/"
        return {
            name[len(prefix) :]: array
            for name, array in self._arrays.items()
            if name.startswith(prefix)
        }

    def close(self) -> None:
        """Drop the views and the descriptor; the memory goes with the last process that has it."""
        self._arrays.clear()
        with contextlib.suppress(BufferError):  # a view is still referenced: the map goes with it
            self._map.close()
        os.close(self.fd)

    def __enter__(self) -> Slab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _too_large(layout: Layout, why: str) -> RunError:
    return RunError(
        "slab-too-large",
        f"the plan needs {layout.total_bytes / 1e9:.2f} GB of shared memory; {why}",
        hint="plan again with fewer environments (envs=…), a smaller batch or horizon, or a lower "
        "--max-staleness; each multiplies the segments that are alive at once. An emulation moves "
        "fewer bytes with --payload-scale 0.01",
    )
